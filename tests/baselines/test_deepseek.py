"""DeepSeek's recipe: whole experts far and wide, attention by data, the rest replicated."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench import make_task
from lts_bench.baselines.deepseek import DeepSeek, widest_first
from lts_bench.baselines.megatron_search import MegatronSearch
from lts_bench.specs.config import list_models
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestDeepSeek(AgentConformance):
    agent = DeepSeek

    def task(self):
        return ToyTask()


@cache
def task_of(model: str, cluster: str = "h100x64"):
    return make_task(model=model, cluster=cluster, workload="isl=8192,osl=256,ttft_ms=600,tpot_ms=60")


@pytest.mark.parametrize("model", list_models())
def test_every_model_has_the_recipe_once_at_each_of_the_degrees(model):
    task = task_of(model)
    vectors = widest_first(task.space, task.features)
    assert len(vectors) and task.space.legal(vectors).all()
    assert len(np.unique(vectors, axis=0)) == len(vectors)
    assert (task.space.degrees[vectors[:, 0], 3] == 1).all()


def test_the_best_guess_is_the_published_deployment():
    """One copy of the weights, ep over all devices, tp within 4, no stages."""
    task = task_of("deepseek-v3")
    pp, dp, _, tp, ep, etp = task.space.degrees[widest_first(task.space, task.features)[0, 0]][1:].tolist()
    assert (pp, ep, etp) == (1, 64, 1) and dp * tp == 64 and tp <= 4


def test_attention_is_by_sequences_or_heads_and_the_shared_expert_replicated():
    task = task_of("deepseek-v3")
    vectors = widest_first(task.space, task.features)
    wide = vectors[task.space.degrees[vectors[:, 0], 4] > 1]
    strategies = [task.space.decode(vector).sharding for vector in wide[:50]]
    assert {strategy["moe.attention.core"] for strategy in strategies} == {("R", "batch"), ("R", "heads")}
    assert {strategy[f"moe.shared.{name}"] for strategy in strategies for name in ("up", "down")} == {("R", "M")}
    assert {strategy[f"moe.experts.{name}"] for strategy in strategies for name in ("up", "down")} == {("R",)}


def test_dense_models_split_attention_by_sequences_and_the_ffn_by_columns():
    task = task_of("llama-3.1-70b")
    vectors = widest_first(task.space, task.features)
    first = task.space.decode(vectors[0])
    assert (first.degrees.pp, first.degrees.tp) == (1, 2)
    sharding = first.sharding
    assert [sharding[f"dense.{name}"] for name in ("attention.core", "ffn.up", "ffn.down")] == [
        ("R", "batch"),
        ("R", "N"),
        ("R", "K"),
    ]


def test_it_beats_megatrons_pattern_where_long_prompts_meet_experts():
    task = task_of("deepseek-v3")
    best = [run_agent(agent, task, 1_000).best.goodput_per_npu for agent in (DeepSeek, MegatronSearch)]
    assert best[0] > 1.2 * best[1]
