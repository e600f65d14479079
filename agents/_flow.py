"""Letters of operators in a row that fit together, drawn at random."""

from __future__ import annotations

import numpy as np

from lts_bench.agents._axes import Axes
from lts_bench.space.decisions import Space
from lts_bench.space.flow import fits, sources, states
from lts_bench.space.patterns import operator_name

LOOSE = 0.05
"""How likely a letter that does not take what is left to it is drawn, beside one that does."""


class Flow:
    """Draws letters along the flow of activations, each operator's after that of the one whose result it takes."""

    def __init__(self, space: Space, axes: Axes) -> None:
        """Tabulate which letters of operators there are, and which fit those before."""
        operators = [operator_name(name) for name in space.names[1:]]
        self._sources, size = sources(operators), len(axes.names)
        self._weights = np.zeros((len(operators), size + 1, size))
        held = [sorted({letter for label in row for letter in label.split(",")}) for row in space.choices[1:]]
        for at, (operator, source) in enumerate(zip(operators, self._sources, strict=True)):
            places = [axes.names.index(letter) for letter in held[at]]
            self._weights[at][:, places] = 1.0
            if source is None:
                continue
            for letter in held[source]:
                left = states(operators[source], letter)
                row = [1.0 if fits(left, states(operator, taken)) else LOOSE for taken in held[at]]
                self._weights[at, axes.names.index(letter)][places] = row

    def redrawn(self, letters: np.ndarray, where: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the letters (n, operators) of an axis, those at ``where`` (n, operators) drawn anew in their order."""
        letters = letters.copy()
        for at in np.flatnonzero(where.any(axis=0)).tolist():
            source = self._sources[at]
            weights = self._weights[at][letters[:, source] if source is not None else np.zeros(len(letters), int)]
            shares = weights.cumsum(axis=1)
            drawn = (shares > rng.random((len(letters), 1)) * shares[:, -1:]).argmax(axis=1)
            letters[where[:, at], at] = drawn[where[:, at]]
        return letters
