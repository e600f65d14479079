"""Estimation of distribution: how often the best strategies choose what."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import AskTell
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import near_degrees, nearness, operator_masks
from lts_bench.problem import Problem


class Eda(AskTell):
    """Estimation of distribution (Mühlenbein and Paaß, 1996): categorical operators, conditional on the degrees.

    The degrees are those of one of the elites or near ones. Every operator is drawn from the shares of its choices among
    the elites, those of near degrees weighing most, mixed with a uniform draw.
    """

    name, version, track, anytime = "eda", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {"batch": 16, "first": 32, "elites": 20, "moves": 0.3, "uniform": 1.0, "sharpness": 2.0}

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin without elites."""
        self._space, self._rng = problem.space, rng
        self._history = History(problem.space, self.parameters["elites"])

    def ask(self, n: int) -> np.ndarray:
        """Draw strategies from the distribution, random ones at first."""
        if not len(self._history.vectors):
            return self._space.sample(n, self._rng)
        return self._history.propose(self._draw, self._rng)

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Keep the best as elites."""
        self._history.add(vectors, values(answers))

    def _draw(self) -> np.ndarray:
        elites, rng, count = self._history.vectors, self._rng, self.parameters["batch"]
        degrees = elites[rng.integers(len(elites), size=count), 0]
        moved = rng.random(count) < self.parameters["moves"]
        degrees[moved] = near_degrees(self._space, degrees[moved], rng)
        ranks = 1.0 / (1.0 + np.arange(len(elites)))**self.parameters.get("rank", 0.5)
        weights = nearness(self._space, degrees)[:, elites[:, 0]] ** self.parameters["sharpness"] * ranks
        masks = operator_masks(self._space, degrees)
        chosen = elites[:, 1:, np.newaxis] == np.arange(masks.shape[2])
        learned = np.tensordot(weights, chosen, axes=1) * masks + 1e-12 * masks
        uniform = min(1.0, self.parameters["uniform"] / masks.shape[1])
        shares = [each / each.sum(axis=2, keepdims=True) for each in (learned, masks)]
        likelihood = (1.0 - uniform) * shares[0] + uniform * shares[1]
        drawn = (likelihood.cumsum(axis=2) > rng.random((*masks.shape[:2], 1))).argmax(axis=2)
        return np.concatenate((degrees[:, np.newaxis], drawn), axis=1)
