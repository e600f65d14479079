"""Bayesian optimisation: a Gaussian process on strategies, expected improvement among neighbours of the best."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from lts_bench.agent import AskTell
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space

LENGTHS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Length scales to choose from by marginal likelihood."""


class Bayesian(AskTell):
    """Bayesian optimisation with a Gaussian process whose kernel falls with the number of letters that differ.

    Strategies are one-hot letters of every operator on every axis and logarithms of the degrees, so that a squared
    exponential kernel is the exponentiated Hamming kernel of categorical spaces (CASMOPOLITAN, arXiv 2102.07188). It is
    fitted to normal scores of the values, infeasible strategies by their violation below all feasible ones. A batch
    has the highest expected improvement among one to ``steps`` moves from the best strategies and some random ones.
    The process sees the best and the last strategies, ``points`` together: its cost is cubic in their number.
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
        "noise": 0.01,
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
        process = self._fitted(self._encoding.of(vectors), scores)
        mean, deviation = process.predict(self._encoding.of(candidates), return_std=True)
        gain = (mean - scores.max()) / deviation
        improvement: np.ndarray = deviation * (gain * norm.cdf(gain) + norm.pdf(gain))
        return improvement

    def _fitted(self, points: np.ndarray, scores: np.ndarray) -> GaussianProcessRegressor:
        """Return the process; its length scale is chosen anew whenever the evaluations have doubled."""
        if len(self._values) >= self._next_choice:
            self._next_choice *= 2
            likelihoods = [self._process(each, points, scores).log_marginal_likelihood_value_ for each in LENGTHS]
            self._length = LENGTHS[int(np.argmax(likelihoods))]
        return self._process(self._length, points, scores)

    def _process(self, length: float, points: np.ndarray, scores: np.ndarray) -> GaussianProcessRegressor:
        kernel = RBF(length) + WhiteKernel(self.parameters["noise"])
        return GaussianProcessRegressor(kernel, optimizer=None).fit(points, scores)


class Encoding:
    """Strategies as points: degrees by their logarithms, operators by one-hot letters of every axis."""

    def __init__(self, space: Space) -> None:
        self._degrees = np.log2(space.degrees) / 2.0
        letters = sorted({letter for labels in space.choices[1:] for label in labels for letter in label.split(",")})
        self._tables = [_letters(labels, letters) for labels in space.choices[1:]]

    def of(self, vectors: np.ndarray) -> np.ndarray:
        """Return points (n, coordinates); letters of one axis that differ are a distance of 1 apart."""
        tables = [table[choices] for table, choices in zip(self._tables, vectors[:, 1:].T, strict=True)]
        return np.concatenate([self._degrees[vectors[:, 0]], *tables], axis=1)


def _letters(labels: tuple[str, ...], letters: list[str]) -> np.ndarray:
    """Return (choices, axes · letters) which letter a choice has on each axis, √½ for a 1."""
    axes = [[part == letter for part in label.split(",") for letter in letters] for label in labels]
    return np.array(axes) * np.sqrt(0.5)


def normal_scores(found: np.ndarray) -> np.ndarray:
    """Return values as quantiles of a normal distribution: what counts is their order."""
    scores: np.ndarray = norm.ppf((rankdata(found) - 0.5) / len(found))
    return scores
