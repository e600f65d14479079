"""Estimation of distribution keeps to the contract and learns what good strategies choose."""

from __future__ import annotations

from fakes import ToyTask

from lts_bench.agents.eda import Eda
from lts_bench.baselines.random import RandomSearch
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestEda(AgentConformance):
    agent = Eda

    def task(self):
        return ToyTask()


class TestEdaWithFlatFeedback(TestEda):
    def task(self):
        return ToyTask(feedback="flat")


def test_it_finds_the_optimum_more_surely_than_random_search():
    tasks = [ToyTask(seed) for seed in range(6)]
    found = {
        agent: sum(run_agent(agent, task, 400).best.goodput_per_npu == task.optimum() for task in tasks)
        for agent in (Eda, RandomSearch)
    }
    assert found[Eda] >= 4 > found[RandomSearch]
