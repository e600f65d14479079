"""The portfolio keeps to the contract and begins as its surrogate does."""

from __future__ import annotations

from fakes import ToyTask

from lts_bench.agents.bayesian import Bayesian
from lts_bench.agents.portfolio import Portfolio
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestPortfolio(AgentConformance):
    agent = Portfolio

    def task(self):
        return ToyTask()


def test_it_is_the_surrogate_until_it_hands_over():
    def early(meter):
        return [(point.evaluation, point.vector) for point in meter.trace if point.evaluation <= 200]

    assert early(run_agent(Portfolio, ToyTask(), 230)) == early(run_agent(Bayesian, ToyTask(), 200))
