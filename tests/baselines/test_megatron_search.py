"""Megatron's pattern on every one-axis group, best guess first."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToySpace, ToyTask

from lts_bench import make_task
from lts_bench.baselines.megatron_search import MegatronSearch, best_guess_first, weight_bytes
from lts_bench.space.decisions import Space
from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.operators import MEGATRON
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import list_models, load_model
from lts_bench.testing.conformance import run_agent

SPACE = ToySpace()


def decoded() -> list[dict[str, str]]:
    return [SPACE.decode(vector) for vector in megatron_vectors(SPACE)]


def test_the_pattern_on_one_group_written_out():
    found = [strategy for strategy in decoded() if strategy["degrees"].startswith("pp=2 dp=1 tp=1x4 ")]
    pattern = {
        "dense.attention.qkv": "R,N",
        "dense.attention.core": "R,heads",
        "dense.attention.out": "R,K",
        "dense.ffn.up": "R,N",
        "dense.ffn.down": "R,K",
        "embed": "R,vocabulary",
        "head": "R,vocabulary",
    }
    assert [strategy.pop("dense.stream") for strategy in found] == ["R,R", "R,M"]
    for strategy in found:
        del strategy["degrees"]
        assert strategy == pattern


def test_without_tensor_parallelism_nothing_is_split():
    single = [strategy for strategy in decoded() if " tp=1x1 " in strategy["degrees"]]
    assert len(single) == 4
    assert {letter for strategy in single for key, letter in strategy.items() if key != "degrees"} == {"R,R"}


def test_every_legal_one_axis_group_is_there_and_no_other():
    """Heads are 4, so groups of 8 are not legal; those of 2 and 4 come with both residuals."""
    degrees = SPACE.degrees[megatron_vectors(SPACE)[:, 0]]
    expected = [(pp, tp) for pp in (1, 2, 4, 8) for tp in (1, 2, 4) for _ in range(1 + (tp > 1)) if pp * tp <= 8]
    assert sorted(zip(degrees[:, 1].tolist(), degrees[:, 4].tolist(), strict=True)) == sorted(expected)
    assert (degrees[:, 3] == 1).all()


def test_all_are_legal_and_different():
    vectors = megatron_vectors(SPACE)
    assert SPACE.legal(vectors).all()
    assert len(np.unique(vectors, axis=0)) == len(vectors)


def test_weights_that_fit_come_first_then_little_model_parallelism():
    """140 GB on devices of 72 GB want two of them."""
    vectors = best_guess_first(SPACE, megatron_vectors(SPACE), ToyTask().features)
    model_parallel = np.prod(SPACE.degrees[vectors[:, 0]][:, [1, 4]], axis=1)
    assert model_parallel.tolist() == sorted(model_parallel, key=lambda size: (size < 2, size))
    assert sorted(map(tuple, vectors)) == sorted(map(tuple, megatron_vectors(SPACE)))


def test_groups_wider_than_a_domain_come_after_those_within_it():
    features = ToyTask().features | {"domain_devices": 2.0}
    tp = SPACE.degrees[best_guess_first(SPACE, megatron_vectors(SPACE), features)[:, 0], 4]
    fitting = tp[: np.flatnonzero(tp == 1)[-1]]
    assert fitting[0] == 2 and (np.flatnonzero(fitting == 4).min() > np.flatnonzero(fitting == 2).max())


def test_weights_of_experts_are_shared_by_expert_ranks_and_the_rest_by_tp():
    """Mixtral's shape: 8 experts, 2 active. 45 of 47 G parameters in experts; 45 · 6/8 of them idle."""
    features = {"parameters": 47e9, "active_parameters": 47e9 - 45e9 * 6 / 8, "experts": 8.0, "top_k": 2.0}
    degrees = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 2, 4, 1, 2, 8, 1], [1, 1, 1, 1, 4, 2, 2]])
    expected = [94e9, (45e9 / 8 + 2e9 / 2) * 2 / 2, (45e9 / 4 + 2e9 / 4) * 2]
    assert weight_bytes(degrees, features | {"weight_bytes": 2.0}) == pytest.approx(expected)


def test_a_run_evaluates_all_patterns_or_the_first_of_them():
    task, count = ToyTask(), len(megatron_vectors(SPACE))
    whole, cut = run_agent(MegatronSearch, task, 100), run_agent(MegatronSearch, task, 3)
    assert (whole.used, whole.unique, cut.used) == (count, count, 3)
    assert whole.best.goodput_per_npu == task.evaluate(megatron_vectors(SPACE))["goodput_per_npu"].max()


@pytest.mark.parametrize("model", list_models())
def test_every_built_in_model_has_its_pattern(model):
    space = Space.build(load_model(model), load_cluster("h100x16"))
    vectors = megatron_vectors(space)
    assert space.legal(vectors).all()
    assert (space.canonical(vectors) == vectors).all()
    split = vectors[space.degrees[vectors[:, 0], 4] > 1]
    assert len(split)
    for name, choice in space.decode(split[0]).sharding.items():
        operator = name.partition(".")[2] or name
        if operator != "stream" and not operator.startswith("experts."):
            assert choice == ("R", MEGATRON[operator])


def test_the_order_is_defined_by_a_tasks_own_features():
    task = make_task(model="mixtral-8x7b", cluster="h100x16", workload="isl=1024,osl=256,ttft_ms=2000,tpot_ms=40")
    ordered = best_guess_first(task.space, megatron_vectors(task.space), task.features)
    assert task.evaluate(ordered[:10])["feasible"].any()
