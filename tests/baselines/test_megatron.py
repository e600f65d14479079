"""Megatron's rules: a few questions, the smallest model parallelism that fits."""

from __future__ import annotations

from functools import cache

import pytest
from fakes import ToySpace, ToyTask

from lts_bench import make_task
from lts_bench.baselines.megatron import Megatron, smallest_first
from lts_bench.space.megatron import megatron_vectors
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

FEATURES = ToyTask().features


class TestMegatron(AgentConformance):
    agent = Megatron

    def task(self):
        return ToyTask()


@cache
def task_of(model: str, cluster: str):
    return make_task(model=model, cluster=cluster, workload="isl=1024,osl=512,ttft_ms=2000,tpot_ms=60")


def test_pipelines_come_only_when_tp_fills_the_domain():
    degrees = ToySpace().degrees[smallest_first(ToySpace(), FEATURES)[:, 0]]
    assert (degrees[degrees[:, 1] > 1, 4] == 4).all()
    assert degrees[0, [1, 4]].tolist() == [1, 2]


@pytest.mark.parametrize("model", ["llama-3.1-70b", "mixtral-8x7b"])
def test_all_are_megatrons_pattern(model):
    task = task_of(model, "h100x16")
    known = {vector.tobytes() for vector in megatron_vectors(task.space)}
    assert {vector.tobytes() for vector in smallest_first(task.space, task.features)} <= known


@pytest.mark.parametrize(
    ("model", "cluster", "pp", "tp", "ep"),
    [
        ("llama-3.1-8b", "h100x8", 1, 1, 1),  # 16 GB of weights
        ("llama-3.1-70b", "h100x16", 1, 2, 1),  # 141 GB of weights on devices of 77 GB leave no room on two
        ("llama-3.1-405b", "h100x64", 2, 8, 1),  # 812 GB: two nodes
        ("mixtral-8x7b", "h100x16", 1, 1, 8),  # experts over the node, attention whole
    ],
)
def test_the_answer_is_the_smallest_that_fits(model, cluster, pp, tp, ep):
    task = task_of(model, cluster)
    meter = run_agent(Megatron, task, 50)
    asked = smallest_first(task.space, task.features)[: meter.used]
    answers = task.evaluate(asked)
    assert (answers["violation"][:-1, 0] > 0).all() and answers["violation"][-1, 0] == 0
    assert task.space.degrees[asked[-1, 0]][[1, 4, 5]].tolist() == [pp, tp, ep]


def test_it_asks_no_more_than_its_attempts():
    task = ToyTask(memory_limit_bytes=1e-3)
    assert run_agent(Megatron, task, 100).used == min(8, len(smallest_first(task.space, task.features)))


def test_latency_does_not_make_it_ask_on():
    task = task_of("llama-3.1-8b", "h100x8")
    tight = make_task(model="llama-3.1-8b", cluster="h100x8", workload="isl=1024,osl=512,ttft_ms=2000,tpot_ms=1")
    assert run_agent(Megatron, tight, 50).used == run_agent(Megatron, task, 50).used == 1
