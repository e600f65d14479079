"""Local search keeps to the contract and descends to optima."""

from __future__ import annotations

import numpy as np
from fakes import ToyTask

from lts_bench.agents.local_search import LocalSearch
from lts_bench.baselines.random import RandomSearch
from lts_bench.budget import Budget
from lts_bench.problem import LocalProblem
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestLocalSearch(AgentConformance):
    agent = LocalSearch

    def task(self):
        return ToyTask()


class TestLocalSearchWithFlatFeedback(TestLocalSearch):
    def task(self):
        return ToyTask(feedback="flat")


def test_it_comes_near_the_optimum_where_random_search_does_not():
    for task in map(ToyTask, range(4)):
        assert run_agent(RandomSearch, task, 400).best.goodput_per_npu < 0.55 * task.optimum()
        assert run_agent(LocalSearch, task, 400).best.goodput_per_npu > 0.85 * task.optimum()


def test_a_descent_ends_where_no_choice_of_an_operator_is_better():
    task, rng = ToyTask(), np.random.default_rng(0)
    agent = LocalSearch(first=1)
    problem = LocalProblem.of(task, Budget("e400", 400, 1e9))
    agent.run(problem, rng)
    best, goodput = np.array(problem.meter.best.vector), problem.meter.best.goodput_per_npu
    for column in range(1, len(best)):
        near = np.tile(best, (int(task.space.sizes[column]), 1))
        near[:, column] = np.arange(len(near))
        assert task.evaluate(near)["goodput_per_npu"].max() == goodput
