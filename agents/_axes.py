"""The letters of strategies, axis by axis."""

from __future__ import annotations

import numpy as np

from lts_bench.space.decisions import Space


class Axes:
    """Which letter each choice of an operator has on each axis, and which choice has given letters.

    An operator of one axis has its letter on axis 0.

    Attributes:
        names: all letters; one more stands for none.
    """

    def __init__(self, space: Space) -> None:
        labels = space.choices[1:]
        self.names = sorted({letter for row in labels for label in row for letter in label.split(",")})
        self._letters = np.full((len(labels), max(map(len, labels)), 2), len(self.names))
        self._choices = np.full((len(labels), len(self.names) + 1, len(self.names) + 1), -1)
        self._columns = np.arange(len(labels))
        for column, row in enumerate(labels):
            for choice, label in enumerate(row):
                letters = [self.names.index(letter) for letter in label.split(",")]
                self._letters[column, choice, : len(letters)] = letters
                self._choices[(column, *self._letters[column, choice])] = choice

    def letters(self, vectors: np.ndarray) -> np.ndarray:
        """Return (n, operators, 2) indices into ``names`` of the letters of vectors (n, d)."""
        letters: np.ndarray = self._letters[self._columns, vectors[:, 1:]]
        return letters

    def written(self, vectors: np.ndarray, letters: np.ndarray) -> np.ndarray:
        """Return vectors (n, d) with other letters (n, operators, 2), where the operator has such a choice."""
        choices = self._choices[self._columns, letters[..., 0], letters[..., 1]]
        return np.concatenate((vectors[:, :1], np.where(choices < 0, vectors[:, 1:], choices)), axis=1)

    def relabelled(self, vectors: np.ndarray, axes: np.ndarray, names: np.ndarray) -> np.ndarray:
        """Return vectors (n, d) in which the letters of an axis (n,) are all the same one (n,), where there is such."""
        letters = self.letters(vectors)
        letters[np.arange(len(letters)), :, axes] = names[:, np.newaxis]
        return self.written(vectors, letters)
