"""Weights stay on two axes: hidden features on one, inner features on the other."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench import make_task
from lts_bench.baselines.megatron_search import MegatronSearch
from lts_bench.baselines.weight_stationary_2d import WeightStationary2D, layouts
from lts_bench.specs.config import list_models
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestWeightStationary2D(AgentConformance):
    agent = WeightStationary2D

    def task(self):
        return ToyTask()


@cache
def task_of(model: str, cluster: str = "tpu-v5p-4x4x4", tpot_ms: int = 60):
    return make_task(model=model, cluster=cluster, workload=f"isl=2048,osl=256,ttft_ms=2000,tpot_ms={tpot_ms}")


@pytest.mark.parametrize("model", list_models())
def test_every_model_has_layouts_each_once(model):
    task = task_of(model)
    vectors = layouts(task.space, task.features)
    assert len(vectors) and task.space.legal(vectors).all()
    assert len(np.unique(vectors, axis=0)) == len(vectors)


def test_the_layout_is_the_papers():
    """Section 3.2.2: W_in split E_x F_y, W_out F_y E_x."""
    task = task_of("palm-540b")
    for vector in layouts(task.space, task.features)[:50]:
        strategy = task.space.decode(vector)
        assert min(strategy.degrees.tx, strategy.degrees.ty) > 1
        assert strategy.sharding["dense.ffn.up"] == ("K", "N")
        assert strategy.sharding["dense.ffn.down"] == ("N", "K")
        assert strategy.sharding["dense.stream"] in {("N", "R"), ("N", "N")}


def test_attention_is_by_heads_or_by_sequences():
    task = task_of("palm-540b")
    vectors = layouts(task.space, task.features)
    cores = {task.space.decode(vector).sharding["dense.attention.core"] for vector in vectors}
    assert cores == {("heads", "heads"), ("batch", "batch"), ("batch", "heads")}


def test_axes_near_the_papers_optimum_come_first():
    """Of 64 devices, x = 4 (section 3.2.2)."""
    task = task_of("palm-540b")
    degrees = task.space.degrees[layouts(task.space, task.features)[:, 0]]
    whole = degrees[degrees[:, 3] * degrees[:, 4] == 64]
    assert whole[0, [3, 4]].tolist() == [4, 16]


def test_without_degrees_of_two_axes_it_is_one_dimensional():
    task = make_task(model="llama-3.1-8b", cluster="h100x2", workload="isl=1024,osl=64,ttft_ms=500,tpot_ms=20")
    vectors = layouts(task.space, task.features)
    assert len(vectors) and (task.space.degrees[vectors[:, 0], 3] == 1).all()
    assert len(np.unique(vectors, axis=0)) == len(vectors)


def test_it_beats_megatrons_pattern_where_one_axis_is_too_short():
    task = task_of("palm-540b", "tpu-v5p-8x8x8", 25)
    best = [run_agent(agent, task, 1_000).best for agent in (WeightStationary2D, MegatronSearch)]
    assert best[0] is not None and (best[1] is None or best[0].goodput_per_npu > best[1].goodput_per_npu)
