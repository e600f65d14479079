"""Simulated annealing: parallel chains that restart from the best."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import AskTell
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours
from lts_bench.problem import Problem


class Annealing(AskTell):
    """Simulated annealing (Kirkpatrick et al., 1983) in parallel chains, reheated from the best strategy.

    Each chain proposes a neighbour and moves there if it is better, or with probability exp(-loss / temperature). A loss is
    relative to the best goodput so far; among infeasible strategies, it is one of violations.
    """

    name, version, track, anytime = "annealing", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {"chains": 4, "hot": 0.05, "cold": 0.005, "steps": 25}

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin without chains."""
        self._rng, self._space = rng, problem.space
        self._neighbours, self._history = Neighbours(problem.space), History(problem.space, 1)
        self._chains = np.empty((0, len(problem.space.sizes)), dtype=np.int64)
        self._values, self._step = np.empty(0), 0

    def ask(self, n: int) -> np.ndarray:
        """Propose a neighbour of each chain, random strategies at first."""
        if not len(self._chains):
            return self._space.sample(n, self._rng)
        return self._history.propose(lambda: self._neighbours.draw(self._chains, self._rng), self._rng)

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Move the chains."""
        found = values(answers)
        self._history.add(vectors, found)
        if not len(self._chains):
            best = np.argsort(-found, kind="stable")[: self.parameters["chains"]]
            self._chains, self._values = vectors[best], found[best]
            return
        phase = self._step % self.parameters["steps"] / self.parameters["steps"]
        temperature = self.parameters["hot"] * (self.parameters["cold"] / self.parameters["hot"]) ** phase
        best = self._history.values[0]
        loss = self._scaled(self._values, best) - self._scaled(found, best)
        moves = self._rng.random(len(loss)) < np.exp(-np.maximum(loss, 0.0) / temperature)
        self._chains = np.where(moves[:, np.newaxis], vectors, self._chains)
        self._values = np.where(moves, found, self._values)
        self._step += 1
        if self._step % self.parameters["steps"] == 0:
            self._chains[:], self._values[:] = self._history.vectors[0], best

    def _scaled(self, found: np.ndarray, best: float) -> np.ndarray:
        return np.where(found > 0, found / max(best, 1e-300), found)
