"""Estimation of distribution keeps to the contract and learns what good strategies choose."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.agents.eda import Eda
from lts_bench.baselines.random import RandomSearch
from lts_bench.problem import LocalProblem
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestEda(AgentConformance):
    agent = Eda

    def task(self):
        return ToyTask()


class TestEdaWithFlatFeedback(TestEda):
    def task(self):
        return ToyTask(feedback="flat")


def test_it_comes_near_the_optimum_where_random_search_does_not():
    for task in map(ToyTask, range(4)):
        assert run_agent(RandomSearch, task, 400).best.goodput_per_npu < 0.55 * task.optimum()
        assert run_agent(Eda, task, 400).best.goodput_per_npu > 0.7 * task.optimum()


def taught(**parameters) -> tuple[Eda, ToyTask]:
    agent, task = Eda(**parameters), ToyTask()
    agent.start(LocalProblem.of(task), np.random.default_rng(0))
    vectors = agent.ask(32)
    agent.tell(vectors, task.evaluate(vectors))
    return agent, task


def test_likelihoods_are_of_legal_choices_and_none_of_those_dies():
    agent, task = taught()
    degrees = np.arange(task.space.sizes[0])
    likelihood = agent._likelihood(degrees)
    legal = np.stack([task.space.mask(index)[1:, : likelihood.shape[2]] for index in degrees])
    assert likelihood.sum(axis=2) == pytest.approx(np.ones(likelihood.shape[:2]))
    assert ((likelihood > 0) == legal).all()


def test_without_exploration_only_what_elites_chose_is_likely():
    agent, _ = taught(exploration=0.0, elites=1)
    (elite,) = agent._history.vectors
    likelihood = agent._likelihood(elite[:1])[0]
    assert likelihood[np.arange(len(elite) - 1), elite[1:]] == pytest.approx(np.ones(len(elite) - 1))
