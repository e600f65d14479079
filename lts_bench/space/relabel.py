"""The same space under other numbers: degrees and letters in another order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lts_bench.space.decisions import IntArray, Space


class Relabelling:
    """A space whose choices have been shuffled, and the way back.

    Names, masks and legality mean what they meant; only the integers that stand for choices are others. So an agent
    that reads the space is as good as before, and one that remembers vectors is lost.

    Attributes:
        space: the shuffled space.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        degrees = rng.permutation(len(space.degrees))
        operators, self._original = [], [degrees]
        masks = space.masks.copy()
        for column, operator in enumerate(space.operators, start=1):
            order = rng.permutation(len(operator.letters))
            shuffled = replace(operator, letters=tuple(operator.letters[index] for index in order))
            back = np.array([operator.index(choice) for choice in shuffled.choices], dtype=np.int64)
            masks[:, column, : len(back)] = space.masks[:, column, back]
            operators.append(shuffled)
            self._original.append(back)
        self.space = Space(operators, space.degrees[degrees], space.layers, space.mask_rows[degrees], masks)

    def original(self, vectors: IntArray) -> IntArray:
        """(n, d) what the shuffled space's vectors are in the original one."""
        columns = [back[vectors[:, index]] for index, back in enumerate(self._original)]
        return np.stack(columns, axis=1).astype(np.int64)
