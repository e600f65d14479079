"""Iterated local search: whole neighbourhoods of one decision at a time, then a kick."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours, nearness
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem


class LocalSearch(Agent):
    """Iterated local search (Lourenço et al., 2003): descend decision by decision, kick the best, descend again.

    A descent evaluates the whole neighbourhood of one decision at a time, in random order: an operator's choices, the
    ``near`` nearest degrees, or the letters that an axis may have in all operators. Where none is better, ``kicks``
    random moves from the best strategy so far begin the next descent.

    Tuned on eight tasks of no suite at e1k, 6 seeds each, 5 settings, 240,000 evaluations: near 12 and 24, kicks 2, 3
    and 5; none stood clear of the noise.
    """

    name, version, track, anytime = "local_search", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {"first": 32, "near": 12, "kicks": 3}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Descend from the best of some random strategies, then from kicked ones, until the budget is spent."""
        self.begin(problem, rng)
        with contextlib.suppress(BudgetExhausted):
            self._evaluate(self.space.sample(self.parameters["first"], rng))
            self._descend(self.history.vectors[0], self.history.values[0])
            while problem.remaining:
                kicked = self.history.propose(self._kicked, rng)
                self._descend(kicked[0], self._evaluate(kicked)[0])

    def begin(self, problem: Problem, rng: np.random.Generator) -> None:
        """Forget an earlier run."""
        self.problem, self.space, self.rng = problem, problem.space, rng
        self.neighbours, self.history = Neighbours(self.space), History(self.space, 1)

    def _kicked(self) -> np.ndarray:
        vectors = self.history.vectors
        for _ in range(self.parameters["kicks"]):
            vectors = self.neighbours.draw(vectors, self.rng)
        return vectors

    def _descend(self, vector: np.ndarray, value: float) -> None:
        """Move to the best of a decision's neighbourhood where it is better, until no decision has a better one."""
        waiting = self.rng.permutation(len(vector) + 1).tolist()
        while waiting:
            near = self.history.unseen(self.space.repair(self._neighbourhood(vector, waiting.pop())))
            if len(near) and (found := self._evaluate(near)).max() > value:
                vector, value = near[found.argmax()], found.max()
                waiting = self.rng.permutation(len(vector) + 1).tolist()

    def _neighbourhood(self, vector: np.ndarray, decision: int) -> np.ndarray:
        """Return the near degrees for decision 0, an operator's choices, or for the last one the letters of an axis."""
        if decision == len(vector):
            relabelled = self.neighbours.relabelled[:, :, np.arange(len(vector) - 1), vector[1:]]
            near = relabelled.reshape(-1, len(vector) - 1)
            return np.insert(near, 0, vector[0], axis=1)
        if decision == 0:
            likeliest = nearness(self.space, vector[:1])[0]
            options = np.lexsort((self.rng.random(len(likeliest)), -likeliest))[1 : 1 + self.parameters["near"]]
        else:
            options = np.flatnonzero(self.space.mask(vector[0])[decision])
        near = np.tile(vector, (len(options), 1))
        near[:, decision] = options
        return near

    def _evaluate(self, vectors: np.ndarray) -> np.ndarray:
        found = values(self.problem.evaluate(vectors))
        self.history.add(vectors, found)
        return found
