"""Bayesian optimisation keeps to the contract and beats random search."""

from __future__ import annotations

import pytest
from fakes import ToyTask

from lts_bench.baselines.random import RandomSearch
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

pytest.importorskip("sklearn", reason="the extra 'rl' is not installed")

from lts_bench.agents.bayesian import Bayesian


class TestBayesian(AgentConformance):
    agent = Bayesian

    def task(self):
        return ToyTask()


class TestBayesianWithFlatFeedback(TestBayesian):
    def task(self):
        return ToyTask(feedback="flat")


def test_it_beats_random_search():
    for task in map(ToyTask, range(2)):
        random = run_agent(RandomSearch, task, 100).best.goodput_per_npu
        assert run_agent(Bayesian, task, 100).best.goodput_per_npu > 1.1 * random


def test_it_evaluates_no_strategy_twice():
    meter = run_agent(Bayesian, ToyTask(), 100)
    assert meter.unique == meter.used == 100
