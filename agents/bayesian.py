"""Bayesian optimisation: a Gaussian process on strategies, expected improvement among neighbours of the best."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

from lts_bench.agent import AskTell
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours
from lts_bench.agents._surrogate import Encoding, expected_improvement, fitted, normal_scores
from lts_bench.problem import Problem

LENGTHS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Length scales to choose from by marginal likelihood."""


class Bayesian(AskTell):
    """Bayesian optimisation with a Gaussian process whose kernel falls with the number of letters that differ.

    The kernel is the exponentiated Hamming kernel of categorical spaces (CASMOPOLITAN, arXiv 2102.07188). A batch has
    the highest expected improvement among one to ``steps`` moves from the best strategies and some random ones.
    The process sees the best and the last strategies, ``points`` together: its cost is cubic in their number.

    Not tuned: run with these values on seven tasks of the suite train at e1k, one seed, 7,000 evaluations.
    """

    name, version, track, anytime = "bayesian", "1", "search", True
    batch = 4
    defaults: ClassVar[dict[str, Any]] = {
        "first": 32,
        "points": 300,
        "elites": 8,
        "candidates": 400,
        "random": 0.1,
        "steps": 3,
    }

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin without data."""
        self._space, self._rng = problem.space, rng
        self._encoding, self._neighbours = Encoding(problem.space), Neighbours(problem.space)
        self._history = History(problem.space, self.parameters["points"] // 2)
        self._vectors, self._values = self._history.vectors, self._history.values
        self._length, self._next_choice = LENGTHS[0], self.parameters["first"]

    def ask(self, n: int) -> np.ndarray:
        """Return the most promising candidates, random strategies at first."""
        if len(self._vectors) < self.parameters["first"]:
            return self._history.propose(lambda: self._space.sample(n, self._rng), self._rng)
        candidates = self._candidates()
        chosen = candidates[np.argsort(-self._improvement(candidates), kind="stable")[:n]]
        missing = n - len(chosen)
        return np.concatenate((chosen, self._space.canonical(self._space.sample(missing, self._rng))))

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Remember all."""
        found = values(answers)
        self._history.add(vectors, found)
        self._vectors, self._values = np.concatenate((self._vectors, vectors)), np.append(self._values, found)

    def _candidates(self) -> np.ndarray:
        """Return strategies that were not evaluated before, each once."""
        count, steps = self.parameters["candidates"], self.parameters["steps"]
        random = self._space.sample(int(count * self.parameters["random"]), self._rng)
        near = np.resize(self._history.vectors[: self.parameters["elites"]], (count - len(random), random.shape[1]))
        taken = self._rng.integers(steps, size=len(near))
        for step in range(steps):
            moving = taken >= step
            near[moving] = self._neighbours.draw(near[moving], self._rng)
        return self._history.unseen(self._space.canonical(np.concatenate((near, random))))

    def _improvement(self, candidates: np.ndarray) -> np.ndarray:
        """Return the expected improvement (n,) of candidates on the best score."""
        if not len(candidates):
            return np.empty(0)
        last = len(self._history.vectors)
        vectors = np.concatenate((self._history.vectors, self._vectors[-last:]))
        vectors, first = np.unique(vectors, axis=0, return_index=True)
        scores = normal_scores(np.concatenate((self._history.values, self._values[-last:]))[first])
        process = self._process(self._encoding.of(vectors), scores)
        return expected_improvement(process, self._encoding.of(candidates))

    def _process(self, points: np.ndarray, scores: np.ndarray) -> GaussianProcessRegressor:
        """Return the process; its length scale is chosen anew whenever the evaluations have doubled."""
        if len(self._values) >= self._next_choice:
            self._next_choice *= 2
            likelihoods = [fitted(points, scores, each).log_marginal_likelihood_value_ for each in LENGTHS]
            self._length = LENGTHS[int(np.argmax(likelihoods))]
        return fitted(points, scores, self._length)
