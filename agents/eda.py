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

    The degrees are those of one of the elites or, at a rate of ``moves``, near ones. Every operator is drawn from the
    shares of its choices among the elites, the better ones and those of near degrees weighing more; ``exploration`` of
    a strategy's operators, on average, are drawn uniformly.

    Tuned on eight tasks of no suite at e1k, 6 seeds each, 17 settings, 0.8 million evaluations: 8 or 16 children, 6 to
    20 elites, moves 0.3 and 0.5, exploration 0.5 to 2; few elites alone stood clear of the noise.
    """

    name, version, track, anytime = "eda", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {"children": 8, "elites": 10, "moves": 0.3, "exploration": 1.0}

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
        degrees = self._rng.choice(self._history.vectors[:, 0], size=self.parameters["children"])
        moved = self._rng.random(len(degrees)) < self.parameters["moves"]
        degrees[moved] = near_degrees(self._space, degrees[moved], self._rng)
        cumulative = self._likelihood(degrees).cumsum(axis=2)
        wanted = self._rng.random((*cumulative.shape[:2], 1)) * cumulative[:, :, -1:]
        return np.concatenate((degrees[:, np.newaxis], (cumulative > wanted).argmax(axis=2)), axis=1)

    def _likelihood(self, degrees: np.ndarray) -> np.ndarray:
        """Return (n, operators, most choices) how likely each operator's choices are under each of the degrees (n,)."""
        elites = self._history.vectors
        ranks = np.arange(1, len(elites) + 1) ** -0.5
        weights = nearness(self._space, degrees)[:, elites[:, 0]] * ranks
        legal = operator_masks(self._space, degrees)
        counts = np.tensordot(weights, elites[:, 1:, np.newaxis] == np.arange(legal.shape[2]), axes=1) * legal
        total = counts.sum(axis=2, keepdims=True)
        uniform = legal / legal.sum(axis=2, keepdims=True)
        learned = np.where(total > 0, counts / np.where(total > 0, total, 1.0), uniform)
        share = min(1.0, self.parameters["exploration"] / legal.shape[1])
        likelihood: np.ndarray = (1.0 - share) * learned + share * uniform
        return likelihood
