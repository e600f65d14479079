"""Iterated local search: neighbourhoods in random order until none is better, then a kick or a recombination."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.agents._axes import Axes
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours
from lts_bench.agents._neighbourhoods import Neighbourhoods
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem


class LocalSearch(Agent):
    """Iterated local search (Lourenço et al., 2003) on strategies, whose local optima are recombined by axes.

    A descent takes the neighbourhoods of `Neighbourhoods` in random order, ``chunk`` neighbours at a time, and moves to
    the best of the first chunk that has a better one. Where no neighbour is better, the next descent begins ``kicks``
    random moves from the best strategy, or, with probability ``crossed``, from two axes of the ``optima`` best ends of
    descents: what is good on one axis of the mesh is often good on the other.

    Tuned on 40 tasks of the suite train at e1k, 6 seeds, 21 settings, 5 million evaluations: chunk 3 to 10 and whole
    neighbourhoods, near 12 and 24, kicks 2 to 5, crossed 0 to 0.8, first 16 to 100, restarts from random strategies,
    fewer neighbourhoods, and all pairs of letters of two operators (better from 3,000 evaluations on).
    """

    name, version, track, anytime = "local_search", "2", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "first": 32,
        "near": 12,
        "chunk": 6,
        "kicks": 3,
        "crossed": 0.5,
        "optima": 8,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Descend from the best of some random strategies, then from new starts, until the budget is spent."""
        self.begin(problem, rng)
        with contextlib.suppress(BudgetExhausted):
            self.evaluate(self._space.sample(self.parameters["first"], rng))
            self.search()

    def begin(self, problem: Problem, rng: np.random.Generator) -> None:
        """Forget an earlier run."""
        self._problem, self._space, self._rng = problem, problem.space, rng
        self._history, self._ends = History(problem.space, 1), History(problem.space, self.parameters["optima"])
        self._neighbours, self._axes = Neighbours(problem.space), Axes(problem.space)
        self._neighbourhoods = Neighbourhoods(problem.space, self.parameters["near"], rng).all

    def search(self) -> None:
        """Descend from the best strategy so far, then from new starts, until the budget is spent."""
        self._descend(self._history.vectors[0], self._history.values[0])
        while self._problem.remaining:
            start = self._history.propose(self._start, self._rng)
            self._descend(start[0], self.evaluate(start)[0])

    def _start(self) -> np.ndarray:
        """Return one vector (1, d)."""
        ends = self._ends.vectors
        if len(ends) > 1 and self._rng.random() < self.parameters["crossed"]:
            two = ends[self._rng.choice(len(ends), size=2, replace=False)]
            letters = np.moveaxis(self._axes.letters(two), 1, 2).reshape(4, -1)
            axes = letters[self._rng.integers(4, size=2)]
            return self._space.repair(self._axes.written(two[:1], axes.T[np.newaxis]))
        vectors = self._history.vectors
        for _ in range(self.parameters["kicks"]):
            vectors = self._neighbours.draw(vectors, self._rng)
        return vectors

    def _descend(self, vector: np.ndarray, value: float) -> None:
        """Move to better neighbours until there is none."""
        waiting = self._rng.permutation(len(self._neighbourhoods)).tolist()
        while waiting:
            near = self._history.unseen(self._space.repair(self._neighbourhoods[waiting.pop()](vector)))
            better, found = self._first_better(near, value)
            if found > value:
                vector, value = better, found
                waiting = self._rng.permutation(len(self._neighbourhoods)).tolist()
        self._ends.add(vector[np.newaxis], np.array([value]))

    def _first_better(self, near: np.ndarray, value: float) -> tuple[np.ndarray, float]:
        """Return the best of the first chunk with a better strategy and its value, -inf where there is none."""
        near = near[self._rng.permutation(len(near))]
        for start in range(0, len(near), self.parameters["chunk"]):
            chunk = near[start : start + self.parameters["chunk"]]
            if (found := self.evaluate(chunk)).max() > value:
                return chunk[found.argmax()], found.max()
        return near, -np.inf

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        """Return the values (n,) of vectors (n, d), which are remembered."""
        return self.remember(vectors, self._problem.evaluate(vectors))

    def remember(self, vectors: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Take in answers to vectors (n, d) and return their values (n,)."""
        found = values(answers)
        self._history.add(vectors, found)
        return found
