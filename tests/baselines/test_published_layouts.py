"""Published layouts keep to the contract and find a feasible strategy where limits are loose."""

from __future__ import annotations

from functools import cache

import pytest
from fakes import ToyTask

from lts_bench import make_task
from lts_bench.agent import Agent
from lts_bench.baselines.deepseek import DeepSeek
from lts_bench.baselines.megatron import Megatron
from lts_bench.baselines.weight_stationary_2d import WeightStationary2D
from lts_bench.task import Task
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

WORKLOAD = "isl=1024,osl=512,ttft_ms=2000,tpot_ms=60"
LAYOUTS = [DeepSeek, Megatron, WeightStationary2D]


@cache
def real_task(model: str, cluster: str) -> Task:
    return make_task(model=model, cluster=cluster, workload=WORKLOAD)


class TestDeepSeek(AgentConformance):
    agent = DeepSeek

    def task(self):
        return ToyTask()


class TestMegatron(AgentConformance):
    agent = Megatron

    def task(self):
        return ToyTask()


class TestWeightStationary2D(AgentConformance):
    agent = WeightStationary2D

    def task(self):
        return ToyTask()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", [("llama-3.1-70b", "h100x16"), ("mixtral-8x7b", "h100x16")])
def test_it_finds_a_feasible_strategy_where_limits_are_loose(layout: type[Agent], place: tuple[str, str]) -> None:
    meter = run_agent(layout, real_task(*place), 200)
    assert meter.best is not None
    assert meter.illegal == 0
