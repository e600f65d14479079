"""Uniform random search: the least that a search must beat."""

from __future__ import annotations

import numpy as np

from lts_bench.agent import AskTell
from lts_bench.problem import Problem


class RandomSearch(AskTell):
    """Independent legal strategies, degrees uniform, then every choice uniform among the legal ones."""

    name, version, track, anytime = "random", "1", "search", True
    batch = 256

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Keep the space and the generator."""
        self._space, self._rng = problem.space, rng

    def ask(self, n: int) -> np.ndarray:
        """Sample n strategies."""
        return self._space.sample(n, self._rng)

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Learn nothing."""
