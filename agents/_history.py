"""What a search has evaluated so far: no strategy twice, the best ones at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lts_bench.space.decisions import Space

ATTEMPTS = 4
"""Proposals in place of one that was evaluated before, until it is evaluated again or drawn at random."""


def values(answers: np.ndarray) -> np.ndarray:
    """Return the goodput of feasible strategies and, below 0, the violations of others: ``-sum(log1p(violation))``."""
    return np.where(answers["feasible"], answers["goodput_per_npu"], -np.log1p(answers["violation"]).sum(axis=1))


def relative(found: np.ndarray, best: float) -> np.ndarray:
    """Return values in which goodputs are shares of the best one so far; violations stay."""
    return np.where(found > 0.0, found / (best if best > 0.0 else 1.0), found)


class History:
    """The strategies evaluated in a run.

    Attributes:
        vectors: (n, d) the best ones, best first, as many as are kept, or the best of as many degrees.
        values: (n,) what they are worth.
    """

    def __init__(self, space: Space, kept: int, apart: bool = False) -> None:
        """Begin empty.

        Args:
            space: of the strategies.
            kept: the most strategies in ``vectors``.
            apart: whether these are of distinct degrees.
        """
        self._space, self._kept, self._apart = space, kept, apart
        self._seen: set[bytes] = set()
        self.vectors = np.empty((0, len(space.sizes)), dtype=np.int64)
        self.values = np.empty(0)

    def add(self, vectors: np.ndarray, found: np.ndarray) -> None:
        """Take in vectors (n, d) and their values (n,)."""
        fresh = self.fresh(vectors)
        self._seen.update(vector.tobytes() for vector in vectors)
        merged, worth = np.concatenate((self.vectors, vectors[fresh])), np.concatenate((self.values, found[fresh]))
        order = np.argsort(-worth, kind="stable")
        if self._apart:
            order = order[np.sort(np.unique(merged[order, 0], return_index=True)[1])]
        self.vectors, self.values = merged[order[: self._kept]], worth[order[: self._kept]]

    def propose(self, draw: Callable[[], np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Return strategies that were not evaluated before, as far as a few draws find such.

        Args:
            draw: returns legal vectors (n, d), as many each time.
            rng: draws random strategies where ``draw`` finds no new ones.
        """
        proposed = self._space.canonical(draw())
        for _ in range(ATTEMPTS):
            if not (old := ~self.fresh(proposed)).any():
                return proposed
            proposed[old] = self._space.canonical(draw())[old]
        old = ~self.fresh(proposed)
        proposed[old] = self._space.canonical(self._space.sample(int(old.sum()), rng))
        return proposed

    def unseen(self, vectors: np.ndarray) -> np.ndarray:
        """Return those of the vectors that were not evaluated before, each once."""
        fresh: np.ndarray = vectors[self.fresh(vectors)]
        return fresh

    def fresh(self, vectors: np.ndarray) -> np.ndarray:
        """Return (n,) which vectors were not evaluated before and are the first of their kind."""
        keys = [vector.tobytes() for vector in vectors]
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        return np.array([key not in self._seen and first[key] == row for row, key in enumerate(keys)], dtype=np.bool_)
