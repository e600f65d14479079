"""Simulated annealing: parallel chains that are reheated from the best strategy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import AskTell
from lts_bench.agents._history import History, relative, values
from lts_bench.agents._moves import Neighbours
from lts_bench.problem import Problem


class Annealing(AskTell):
    """Simulated annealing (Kirkpatrick et al., 1983) in parallel chains, restarted from the best strategy.

    Each chain proposes a neighbour and moves there if it is better, else with probability exp(-loss / temperature). A
    loss is relative to the best goodput so far; among infeasible strategies it is one of violations. The temperature
    falls from hot to cold within ``steps``, then all chains begin anew from the best strategy.

    Tuned on eight tasks of no suite at e1k, 6 to 8 seeds each, 32 settings, 1.9 million evaluations: 1 to 16 chains,
    hot 0.02 to 0.3, 10 to 100 steps; few chains stood clear of the noise.
    """

    name, version, track, anytime = "annealing", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {"chains": 2, "hot": 0.05, "cold": 0.005, "steps": 25}

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin without chains."""
        self._space, self._rng, self._step = problem.space, rng, 0
        self._neighbours, self._history = Neighbours(problem.space), History(problem.space, self.parameters["chains"])
        self._chains, self._values = self._history.vectors, self._history.values

    def ask(self, n: int) -> np.ndarray:
        """Propose a neighbour of each chain, random strategies at first."""
        if not len(self._chains):
            return self._space.sample(n, self._rng)
        return self._history.propose(lambda: self._neighbours.draw(self._chains, self._rng), self._rng)

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Move the chains; the best random strategies are their first places."""
        found = values(answers)
        self._history.add(vectors, found)
        if not len(self._chains):
            self._chains, self._values = self._history.vectors, self._history.values
            return
        loss = relative(self._values, self._history.values[0]) - relative(found, self._history.values[0])
        moves = self._rng.random(len(loss)) < np.exp(-np.maximum(loss, 0.0) / self._temperature())
        self._chains = np.where(moves[:, np.newaxis], vectors, self._chains)
        self._values = np.where(moves, found, self._values)
        self._step += 1
        if self._step % self.parameters["steps"] == 0:
            self._chains = np.repeat(self._history.vectors[:1], len(loss), axis=0)
            self._values = np.repeat(self._history.values[:1], len(loss))

    def _temperature(self) -> float:
        hot, cold, steps = (self.parameters[key] for key in ("hot", "cold", "steps"))
        return float(hot * (cold / hot) ** (self._step % steps / steps))
