"""Bayesian optimisation that goes over to random edits of elites, of which its surrogate picks what to evaluate."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from lts_bench.agents._history import ATTEMPTS, History, relative
from lts_bench.agents._proposals import Proposals
from lts_bench.agents.bayesian import Bayesian
from lts_bench.problem import Problem


class Screening(Bayesian):
    """`Bayesian` for the first ``searched`` evaluations, then edits of elites of distinct degrees, which it screens.

    Its first strategies are random but for this: an operator takes activations in the state in which they were left
    (`lts_bench.space.flow`).

    A later batch is chosen from ``ratio`` times as many random edits of the elites, of the better ones more: those with
    the highest expected improvement but ``unscreened`` ones. To search the surrogate for its own optimum instead finds
    what it is wrong about; random edits keep the search where edits lead, and elites of distinct degrees keep it from
    settling on one mesh.
    """

    batch = 8
    defaults: ClassVar[dict[str, Any]] = Bayesian.defaults | {
        "searched": 200,
        "ratio": 16,
        "unscreened": 2,
        "temperature": 0.02,
        "unsolved_temperature": 0.1,
    }

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin without data."""
        super().start(problem, rng)
        self._proposals = Proposals(problem.space)
        self._elites = History(problem.space, self.parameters["elites"], apart=True)

    def ask(self, n: int) -> np.ndarray:
        """Return strategies whose operators fit, then what `Bayesian` would, then promising edits and some others."""
        if len(self._values) < self.parameters["first"]:
            return self._history.propose(partial(self._proposals.sample, n, self._rng), self._rng)
        if len(self._values) < self.parameters["searched"]:
            return super().ask(super().batch)
        edits = self._new_edits(n * self.parameters["ratio"])
        order = np.argsort(-self._improvement(edits), kind="stable")
        screened = order[: n - self.parameters["unscreened"]]
        others = np.setdiff1d(np.arange(len(edits)), screened)[: n - len(screened)]
        return edits[np.concatenate((screened, others))]

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Remember all."""
        super().tell(vectors, answers)
        self._elites.add(vectors, self._values[-len(vectors) :])

    def _new_edits(self, n: int) -> np.ndarray:
        """Return edits that were not evaluated before, n as far as a few draws find so many, one strategy at least."""
        edits = self._edits(n)
        for _ in range(ATTEMPTS):
            if len(edits := self._history.unseen(edits)) >= n:
                break
            edits = np.concatenate((edits, self._edits(n)))
        edits = self._history.unseen(edits)[:n]
        return edits if len(edits) else self._space.canonical(self._space.sample(1, self._rng))

    def _edits(self, n: int) -> np.ndarray:
        """Return edits (n, d) of elites, of the better ones more."""
        elites, found = self._elites.vectors, self._elites.values
        scale = self.parameters["temperature" if found[0] > 0.0 else "unsolved_temperature"]
        worth = relative(found, found[0])
        weights = np.exp(((worth - worth[0]) / scale).clip(-200.0))
        starts = self._rng.choice(len(elites), size=n, p=weights / weights.sum())
        return self._proposals.draw(elites[starts], elites, self._rng)
