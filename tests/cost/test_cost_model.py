from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_evaluator import Slow
from tiny_settings import (
    cost_model,
    degrees,
    dense_model,
    latent_model,
    moe_model,
    setting,
    space_of,
    strategy,
    vector,
)

from lts_bench.answer import ANSWER, ILLEGAL_VIOLATION
from lts_bench.cost import evaluator
from lts_bench.cost.model import CostModel
from lts_bench.cost.phases import PREFILL
from lts_bench.space.decisions import Space
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.layers import Attention, DenseFfn, Layer
from lts_bench.specs.model import Model

MODELS = [dense_model(), moe_model(), latent_model()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("cluster", ["h100x16", "tpu-v5p-4x4x4"])
def test_legality_is_that_of_the_space(model: Model, cluster: str) -> None:
    space, cost = space_of(setting(model, cluster))
    rng = np.random.default_rng(1)
    anything = np.stack([rng.integers(-1, size + 1, 3000) for size in space.sizes], axis=1)
    inside = np.stack([rng.integers(size, size=3000) for size in space.sizes], axis=1)
    for vectors in (anything, inside):
        answers = cost.evaluate(vectors)
        assert (answers["legal"] == space.legal(vectors)).all()
        wrong = answers[~answers["legal"]]
        assert (wrong["violation"] == ILLEGAL_VIOLATION).all() and not wrong["goodput_per_npu"].any()
    assert space.legal(inside).any() and not space.legal(inside).all()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_two_descriptions_of_a_strategy_have_one_answer(model: Model) -> None:
    space, cost = space_of(setting(model, "h100x8"))
    rng = np.random.default_rng(2)
    vectors = np.stack([rng.integers(size, size=2000) for size in space.sizes], axis=1)
    vectors = vectors[space.legal(vectors)]
    canonical = space.canonical(vectors)
    assert (vectors != canonical).any()
    assert (cost.evaluate(vectors) == cost.evaluate(canonical)).all()


def test_order_and_company_change_no_bit() -> None:
    space, cost = space_of(setting(moe_model(), "h100x16"))
    vectors = space.sample(2000, np.random.default_rng(4))
    together = cost.evaluate(vectors)
    assert together.dtype == ANSWER
    assert (cost.evaluate(vectors[::-1]) == together[::-1]).all()
    assert (np.concatenate([cost.evaluate(vectors[i : i + 1]) for i in range(20)]) == together[:20]).all()


def test_one_degrees_entry_priced_alone_or_among_many() -> None:
    space, cost = space_of(setting(moe_model(), "h100x16"))
    vectors = space.sample(50, np.random.default_rng(6))
    for one in vectors:
        alone = CostModel(cost.setting, [Degrees(*map(int, space.degrees[one[0]]))])
        assert (alone.evaluate(np.array([[0, *one[1:]]])) == cost.evaluate(one[None])).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_answers_obey_the_limits(seed: int) -> None:
    space, cost = SPACE, COST
    answers = cost.evaluate(space.sample(50, np.random.default_rng(seed)))
    feasible = answers["feasible"]
    assert (feasible == (answers["goodput_per_npu"] > 0)).all()
    assert (answers["tpot_s"][feasible] <= 0.01 * (1 + 1e-9)).all()
    assert (answers["ttft_s"][feasible] <= 0.05 * (1 + 1e-9)).all()
    assert (answers["violation"][feasible] == 0).all()
    assert (answers["violation"][~feasible].sum(axis=1) > 0).all()


SPACE, COST = space_of(setting(moe_model(), "h100x8", "isl=2048,osl=128,ttft_ms=50,tpot_ms=10"))


def test_idle_devices_never_raise_the_score() -> None:
    model = dense_model()
    listed = [degrees(tp=2, replicas=replicas) for replicas in (1, 2, 3, 4)]
    cost = cost_model(setting(model), *listed)
    scores = [cost.evaluate(vector(model, cost, strategy(model, d)))["goodput_per_npu"][0] for d in listed]
    assert np.array(scores) / scores[3] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def weights_of(model: Model, d: Degrees, cluster: str = "h100x16", **letters: str) -> np.ndarray:
    """(answers' memory) with a cache of nothing: one sequence of two tokens."""
    cost = cost_model(setting(model, cluster, "isl=1,osl=1", max_batch=1), d)
    return cost.evaluate(vector(model, cost, strategy(model, d, **letters)))["memory_bytes"]


def test_tied_embeddings_count_once_on_one_stage_and_twice_on_two() -> None:
    # Llama-3.2-1B: 1,235,814,400 parameters; 749,240,320 and 749,242,368 on two stages.
    layer = Layer(Attention(32, 8, 64), DenseFfn(8192), vectors=4096)
    model = Model("llama-3.2-1b", 2048, 128_256, (layer,) * 16, tied=True, vectors=2048)
    assert model.parameters.total == 1_235_814_400
    assert weights_of(model, degrees())[0] == pytest.approx(2 * 1_235_814_400, abs=1e6)
    assert weights_of(model, degrees(pp=2))[0] == pytest.approx(2 * 749_242_368, abs=1e6)
    untied = weights_of(replace(model, tied=False), degrees())[0]
    assert untied - weights_of(model, degrees())[0] == 2 * 128_256 * 2048
    # Split in two ways, the one matrix is stored twice.
    same = weights_of(model, degrees(tp=8), embed="hidden", head="hidden")[0]
    twice = weights_of(model, degrees(tp=8), embed="R", head="hidden")[0]
    assert twice - same == pytest.approx(2 * 128_256 * 2048, rel=1e-2)
    assert weights_of(model, degrees(tp=8), embed="M", head="R") == weights_of(
        model, degrees(tp=8), embed="R", head="R"
    )


@pytest.mark.parametrize(("embed", "head"), [("hidden", "hidden"), ("R", "hidden"), ("M", "R")])
def test_memory_parts_add_up_to_the_memory(embed: str, head: str) -> None:
    model, d = dense_model(tied=True, vocab=100_000), degrees(tp=4)
    cost = cost_model(setting(model), d)
    chosen = vector(model, cost, strategy(model, d, embed=embed, head=head))
    (raw,) = cost.raw(chosen)
    parts = cost.memory_parts(chosen[0], raw[evaluator.BATCH])
    assert parts["weights"] + parts["kv"] + parts["buffers"] == pytest.approx(raw[evaluator.MEMORY], rel=1e-12)


def test_llama_405b_on_sixteen_devices() -> None:
    # 811.7 GB of weights: 50.73 GB a device with tp 8 and pp 2.
    model = load_model("llama-3.1-405b")
    model = replace(model, precision=replace(model.precision, default=replace(model.precision.default, dtype="bf16")))
    assert 2 * model.parameters.total == pytest.approx(811.7e9, rel=1e-3)
    assert weights_of(model, degrees(pp=2, tp=8))[0] == pytest.approx(50.73e9, rel=2e-3)


def test_the_heaviest_stage_decides_where_layers_do_not_divide() -> None:
    model = dense_model(61)
    one_layer = 2 * (512 * 16 * 64 + 512 * 512 + 3 * 512 * 1024 + 1024)
    listed = degrees(pp=4)
    cost = cost_model(setting(model, workload="isl=1,osl=1", max_batch=1), listed)
    memory = cost.evaluate(vector(model, cost, strategy(model, listed)))["memory_bytes"][0]
    assert memory == pytest.approx(16 * one_layer + 1000 * 512 * 2, rel=1e-2)


def test_slow_links_reverse_the_order_of_tp_and_replicas() -> None:
    # 7B on 4 devices with links of 16 GB/s: four replicas beat tp 4, a pipeline answers no sooner than one device.
    cluster = load_cluster("h100x4")
    slow = msgspec.structs.replace(cluster, scale_up=msgspec.structs.replace(cluster.scale_up, bytes_per_s=16e9))
    model = load_model("llama-2-7b")
    listed = [degrees(replicas=4), degrees(tp=4), degrees(pp=4)]
    cost = cost_model(setting(model, slow, "isl=512,osl=128"), *listed)
    many, tensor, pipeline = (strategy(model, d) for d in listed)
    scores = [cost.evaluate(vector(model, cost, each))["goodput_per_npu"][0] for each in (many, tensor)]
    assert scores[0] > scores[1] > 0
    assert Slow(cost, pipeline).prefill[PREFILL] >= Slow(cost, many).prefill[PREFILL]


def test_a_looser_limit_never_hurts() -> None:
    model = moe_model()
    space = Space.build(model, load_cluster("h100x8"))
    vectors = space.sample(200, np.random.default_rng(8))
    before = None
    for ttft, tpot in ((20, 8), (50, 8), (50, 20), (500, 50)):
        place = setting(model, "h100x8", f"isl=4096,osl=128,ttft_ms={ttft},tpot_ms={tpot}")
        scores = CostModel(place, [Degrees(*map(int, row)) for row in space.degrees]).evaluate(vectors)[
            "goodput_per_npu"
        ]
        assert before is None or (scores >= before * (1 - 1e-12)).all()
        before = scores
    assert before is not None and before.any()
