"""Screening begins as Bayesian optimisation, then evaluates edits that its surrogate prefers, and some others."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask, Watched

from lts_bench.baselines.random import RandomSearch
from lts_bench.testing.conformance import run_agent

pytest.importorskip("sklearn", reason="the extra 'rl' is not installed")

from lts_bench.agents._proposals import Proposals
from lts_bench.agents._screening import Screening
from lts_bench.agents.bayesian import Bayesian


class Preferring(Screening):
    """Prefers strategies by a sum of their choices, and notes what it chose from."""

    def _new_edits(self, n: int) -> np.ndarray:
        self.offered = super()._new_edits(n)
        return self.offered

    def _improvement(self, candidates: np.ndarray) -> np.ndarray:
        return candidates.sum(axis=1).astype(np.float64)

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        if len(self._values) >= self.parameters["searched"]:
            order = np.argsort(-self.offered.sum(axis=1), kind="stable")
            others = [row for row in range(len(order)) if row not in order[:6]]
            assert vectors.tolist() == self.offered[[*order[:6], *others[:2]]].tolist()
            self.rounds = getattr(self, "rounds", 0) + 1
        super().tell(vectors, answers)


def test_the_preferred_edits_are_evaluated_and_two_others():
    agent = Preferring(searched=100)
    run_agent(lambda: agent, ToyTask(), 100 + 5 * 8)
    assert agent.rounds == 5


def test_it_begins_with_operators_that_fit_and_goes_on_as_bayesian_optimisation(monkeypatch: pytest.MonkeyPatch):
    evaluated, ask, drawn, sample = [], Bayesian.ask, [], Proposals.sample

    def noted(self: Bayesian, n: int) -> np.ndarray:
        evaluated.append(len(self._values))
        return ask(self, n)

    def kept(self: Proposals, n: int, rng: np.random.Generator) -> np.ndarray:
        vectors = sample(self, n, rng)
        drawn.extend(vectors.tolist())
        return vectors

    monkeypatch.setattr(Bayesian, "ask", noted)
    monkeypatch.setattr(Proposals, "sample", kept)
    meter = Watched(ToyTask())
    run_agent(Screening, meter, 240)
    assert all(vector in drawn for vector in meter.asked[:32])
    assert evaluated == list(range(32, 200, 4))


def early() -> Screening:
    """One that screens from the first evaluations on."""
    return Screening(searched=40)


def test_it_evaluates_no_strategy_twice():
    meter = run_agent(early, ToyTask(), 200)
    assert meter.unique == meter.used == 200


def test_it_beats_random_search():
    for task in map(ToyTask, range(2)):
        random = run_agent(RandomSearch, task, 200).best.goodput_per_npu
        assert run_agent(early, task, 200).best.goodput_per_npu > 1.1 * random


def test_its_elites_have_distinct_degrees():
    agent = early()
    run_agent(lambda: agent, ToyTask(), 100)
    degrees = agent._elites.vectors[:, 0]
    assert len(set(degrees.tolist())) == len(degrees) > 1
