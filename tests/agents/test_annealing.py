"""Annealing keeps to the contract, cools down and finds optima."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.agents.annealing import Annealing
from lts_bench.baselines.random import RandomSearch
from lts_bench.problem import LocalProblem
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestAnnealing(AgentConformance):
    agent = Annealing

    def task(self):
        return ToyTask()


class TestAnnealingWithFlatFeedback(TestAnnealing):
    def task(self):
        return ToyTask(feedback="flat")


def test_it_comes_near_the_optimum_where_random_search_does_not():
    for task in map(ToyTask, range(4)):
        assert run_agent(RandomSearch, task, 400).best.goodput_per_npu < 0.55 * task.optimum()
        assert run_agent(Annealing, task, 400).best.goodput_per_npu > 0.75 * task.optimum()


def started(**parameters) -> tuple[Annealing, ToyTask]:
    agent, task = Annealing(**parameters), ToyTask()
    agent.start(LocalProblem.of(task), np.random.default_rng(0))
    return agent, task


def play(agent: Annealing, task: ToyTask, rounds: int) -> None:
    for _ in range(rounds):
        vectors = agent.ask(32)
        agent.tell(vectors, task.evaluate(vectors))


def test_chains_begin_at_the_best_random_strategies_and_again_at_the_best_of_all():
    agent, task = started(chains=3, steps=10)
    play(agent, task, 1)
    assert np.array_equal(agent._chains, agent._history.vectors)
    play(agent, task, 10)
    assert (agent._chains == agent._history.vectors[0]).all()


def test_temperatures_fall_from_hot_to_cold_and_begin_anew():
    agent, task = started(hot=0.4, cold=0.1, steps=4)
    play(agent, task, 1)
    seen = []
    for _ in range(5):
        seen.append(agent._temperature())
        play(agent, task, 1)
    assert seen == pytest.approx([0.4, 0.4 * 0.25**0.25, 0.2, 0.4 * 0.25**0.75, 0.4])


def test_without_heat_no_chain_ever_loses():
    agent, task = started(hot=1e-9, cold=1e-9, steps=1000)
    play(agent, task, 1)
    for _ in range(30):
        before = agent._values
        play(agent, task, 1)
        assert (agent._values >= before).all()
