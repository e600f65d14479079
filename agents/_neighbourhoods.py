"""Whole neighbourhoods of a strategy: all strategies that differ from it in one respect."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from lts_bench.agents._axes import Axes
from lts_bench.agents._moves import nearness
from lts_bench.space.decisions import Space
from lts_bench.space.patterns import operator_name

RUNS = (2, 3)
"""How many operators in a row take the letters of the other axis."""


class Neighbourhoods:
    """The neighbourhoods of strategies in a space.

    Attributes:
        all: functions from a vector (d,) to vectors (n, d), which may be illegal: the near degrees; the choices of an
            operator, in one layer kind and in all that have it; a letter on an axis; the letters of the other axis, or
            the axes exchanged, in all operators; the letters of the other axis in a few operators in a row.
    """

    def __init__(self, space: Space, near: int, rng: np.random.Generator) -> None:
        """Prepare the neighbourhoods of a space, that of degrees as large as ``near``."""
        self._space, self._near, self._rng, self._axes = space, near, rng, Axes(space)
        columns: dict[str, list[int]] = {}
        for column, name in enumerate(space.names[1:], start=1):
            columns.setdefault(operator_name(name), []).append(column)
        alone = [[column] for column in range(1, len(space.names))]
        together = [same for same in columns.values() if len(same) > 1]
        self.all: list[Callable[[np.ndarray], np.ndarray]] = [
            self.degrees,
            *(partial(self.choices, decisions) for decisions in alone + together),
            self.letters,
            self.exchanged,
            self.copied,
        ]

    def degrees(self, vector: np.ndarray) -> np.ndarray:
        """Return the nearest other degrees."""
        near = nearness(self._space, vector[:1])[0]
        order = np.lexsort((self._rng.random(len(near)), -near))
        return _with(vector, [0], order[1 : 1 + self._near])

    def choices(self, decisions: list[int], vector: np.ndarray) -> np.ndarray:
        """Return the legal choices of an operator."""
        return _with(vector, decisions, np.flatnonzero(self._space.mask(vector[0])[decisions[0]]))

    def letters(self, vector: np.ndarray) -> np.ndarray:
        """Return all letters on either axis."""
        axes, names = np.indices((2, len(self._axes.names))).reshape(2, -1)
        return self._axes.relabelled(np.tile(vector, (len(axes), 1)), axes, names)

    def exchanged(self, vector: np.ndarray) -> np.ndarray:
        """Return both axes with the letters of one of them, and the axes exchanged."""
        letters = self._axes.letters(vector[np.newaxis])
        both = np.concatenate([letters[..., order] for order in ([0, 0], [1, 1], [1, 0])])
        return self._axes.written(np.tile(vector, (len(both), 1)), both)

    def copied(self, vector: np.ndarray) -> np.ndarray:
        """Return runs of operators with the letters of one axis on both."""
        letters = self._axes.letters(vector[np.newaxis])
        count = letters.shape[1]
        at = np.arange(count)
        runs = [(at >= start) & (at < start + length) for length in RUNS for start in range(count - length + 1)]
        sets = np.array(runs, dtype=np.bool_).reshape(-1, count, 1)
        both = np.concatenate([np.where(sets, letters[..., [axis, axis]], letters) for axis in (0, 1)])
        return self._axes.written(np.tile(vector, (len(both), 1)), both)

    def crossed(self, vector: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return one axis, or both, with the letters of one axis, or both, of other strategies (k, d)."""
        own, taken = self._axes.letters(np.tile(vector, (len(others), 1))), self._axes.letters(others)
        first = [(taken[..., axis], own[..., 1]) for axis in (0, 1)]
        second = [(own[..., 0], taken[..., axis]) for axis in (0, 1)]
        letters = np.concatenate([np.stack(pair, axis=2) for pair in first + second] + [taken])
        return self._axes.written(np.tile(vector, (len(letters), 1)), letters)


def _with(vector: np.ndarray, decisions: list[int], options: np.ndarray) -> np.ndarray:
    near = np.tile(vector, (len(options), 1))
    near[:, decisions] = options[:, np.newaxis]
    return near
