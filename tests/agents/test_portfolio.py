"""The portfolio keeps to the contract and begins as its surrogate does."""

from __future__ import annotations

from fakes import ToyTask, Watched

from lts_bench.agent import Agent
from lts_bench.agents._screening import Screening
from lts_bench.agents.portfolio import Portfolio
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


class TestPortfolio(AgentConformance):
    agent = Portfolio

    def task(self):
        return ToyTask()


def asked(agent: type[Agent], evaluations: int) -> list[list[int]]:
    task = Watched(ToyTask())
    run_agent(agent, task, evaluations)
    return task.asked


def test_it_asks_the_surrogate_until_it_hands_over():
    mine, surrogates = asked(Portfolio, 540), asked(Screening, 540)
    handed_over = next(at for at, pair in enumerate(zip(mine, surrogates, strict=True)) if pair[0] != pair[1])
    # A batch that begins before 500 evaluations are spent is the surrogate's.
    assert 500 <= handed_over < 508
