"""The compiled sorting: strategies in the order of the tables, so that equal rows are read one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.cost.program import Index, IndexArray, IntArray, Program

SORTED = 1 << 20
"""Vectors that are put in order together: many, as those of the same degrees find their rows in the cache."""


class Strategies(NamedTuple):
    """Vectors in the order of the tables.

    Attributes:
        codes: (n, decisions) positions on the mesh.
        degrees: (n,) degrees, the first ones where there are none such.
        vector: (n,) which vector it is.
        inside: (n,) whether every entry is in range; codes are 0 where not.
    """

    codes: IndexArray
    degrees: IndexArray
    vector: IndexArray
    inside: NDArray[np.bool_]


@compiled
def known_degrees(choice: Index, many: Index) -> Index:
    """The degrees of a vector; the first ones where there are none such."""
    return np.uint64(choice) if np.uint64(choice) < np.uint64(many) else np.uint64(0)


@compiled
def sort(program: Program, vectors: IntArray) -> Strategies:
    """The vectors in the order of the tables, their choices turned into positions on meshes of one or two axes."""
    sizes, order, two_axes, letters = program.sizes, program.order, program.two_axes, program.letters
    n, columns, many = len(vectors), np.uint64(len(sizes)), len(order)
    codes, vector = np.empty((n, len(sizes)), np.uint8), np.empty(n, np.uint32)
    degrees, inside = np.empty(n, np.uint32), np.empty(n, np.bool_)
    places = np.zeros(many + 1 if n > 1 else 1, np.uint32)
    if n > 1:
        for at in range(np.uint64(n)):
            places[order[known_degrees(vectors[at, 0], many)] + np.uint64(1)] += np.uint32(1)
        for after in range(1, many):
            places[after] += places[after - 1]
    for at in range(np.uint64(n)):
        mine, outside = known_degrees(vectors[at, 0], many), False
        rank = np.uint64(order[mine] if n > 1 else 0)
        place = np.uint64(places[rank])
        places[rank] += np.uint32(1)
        for column in range(columns):
            outside |= bool(np.uint64(vectors[at, column]) >= np.uint64(sizes[column]))
        if outside:
            codes[place] = 0
        elif two_axes[mine]:
            for column in range(np.uint64(1), columns):
                codes[place, column] = np.uint8(vectors[at, column])
        else:
            for column in range(np.uint64(1), columns):
                codes[place, column] = letters[column, np.uint64(vectors[at, column])]
        vector[place], degrees[place], inside[place] = at, mine, not outside
    return Strategies(codes, degrees, vector, inside)
