"""The same space under other numbers: degrees and letters in another order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lts_bench.space.decisions import IntArray, Space
from lts_bench.space.pool_space import PoolSpace


class Relabelling:
    """A space whose choices have been shuffled, and the way back.

    Names, masks and legality mean what they meant; only the integers that stand for choices are others. So an agent
    that reads the space is as good as before, and one that remembers vectors is lost.

    Attributes:
        space: the shuffled space.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        order = rng.permutation(len(space.degrees))
        self.space: Space
        if isinstance(space, PoolSpace):
            (prefill, first), (decode, second) = (_other_letters(part, rng) for part in space.parts)
            self.space = PoolSpace((prefill, decode), space.pairs[order])
            self._original = [order, *first, *second]
        else:
            plain, back = _other_letters(space, rng)
            rows = plain.mask_rows[order]
            self.space = Space(plain.operators, plain.degrees[order], plain.layers, rows, plain.masks)
            self._original = [order, *back]

    def original(self, vectors: IntArray) -> IntArray:
        """(n, d) what the shuffled space's vectors are in the original one."""
        columns = [back[vectors[:, index]] for index, back in enumerate(self._original)]
        return np.stack(columns, axis=1).astype(np.int64)


def _other_letters(space: Space, rng: np.random.Generator) -> tuple[Space, list[IntArray]]:
    """Return a space whose operators list their letters in another order, and each one's old choice of a new one."""
    operators, originals, masks = [], [], space.masks.copy()
    for column, operator in enumerate(space.operators, start=1):
        order = rng.permutation(len(operator.letters))
        shuffled = replace(operator, letters=tuple(operator.letters[index] for index in order))
        back = np.array([operator.index(choice) for choice in shuffled.choices], dtype=np.int64)
        masks[:, column, : len(back)] = space.masks[:, column, back]
        operators.append(shuffled)
        originals.append(back)
    return Space(operators, space.degrees, space.layers, space.mask_rows, masks), originals
