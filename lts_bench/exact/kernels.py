"""The compiled inner loops: filling tables, and the two passes of minimising sums by elimination.

Tables are (cells, entries, dimensions): each dimension is minimised by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.cost.program import FloatArray, IndexArray, IntArray


@compiled
def add_rows(
    table: FloatArray, lines: FloatArray, which: IndexArray, base: IndexArray, entry: IntArray, k: IntArray,
    offset: IntArray, block: IntArray, columns: IntArray, weights: FloatArray,
) -> None:  # fmt: skip
    """Add weighted columns of rows to the entries of one cell.

    Args:
        table: (entries, dimensions).
        lines: (lines, rows, width) the rows in strips.
        which: (all rows,) the row of ``lines`` that a row is.
        base: (edges,) first rows.
        entry: (n,) as in ``Terms``.
        k: (n,) likewise.
        offset: (n,) likewise.
        block: (n,) likewise.
        columns: of the rows.
        weights: (blocks, columns, dimensions).
    """
    width = lines.shape[2]
    for n in range(len(entry)):
        row, its = which[base[k[n]] + offset[n]], table[entry[n]]
        for at in range(len(columns)):
            value = lines[columns[at] // width, row, columns[at] % width]
            for d in range(table.shape[1]):
                its[d] += weights[block[n], at, d] * value


@compiled
def add_strips(
    table: FloatArray, first: int, lines: FloatArray, columns: int, which: IndexArray, base: IndexArray,
    entry: IntArray, k: IntArray, offset: IntArray, block: IntArray, weights: FloatArray,
) -> None:  # fmt: skip
    """Add weighted rows, from their first column on, to the dimensions from ``first`` on; ``weights`` (blocks,)."""
    width = lines.shape[2]
    for c in range(len(table)):
        for n in range(len(entry)):
            row, weight, its = which[base[c, k[n]] + offset[n]], weights[block[n]], table[c, entry[n]]
            for column in range(columns):
                its[first + column] += weight * lines[column // width, row, column % width]


@compiled
def minimise(table: FloatArray, offsets: IntArray, strides: IntArray, size: int, start: int) -> None:
    """Fill a message: the least sum of the inputs over the choices of one variable."""
    cells, _, dimensions = table.shape
    inputs, entries = offsets.shape
    total = np.empty(dimensions)
    for c in range(cells):
        its = table[c]
        for entry in range(entries):
            for d in range(dimensions):
                its[start + entry, d] = np.inf
            for choice in range(size):
                for d in range(dimensions):
                    total[d] = 0.0
                for each in range(inputs):
                    row = offsets[each, entry] + strides[each] * choice
                    for d in range(dimensions):
                        total[d] += its[row, d]
                for d in range(dimensions):
                    its[start + entry, d] = min(its[start + entry, d], total[d])


@compiled
def complete(
    table: FloatArray, rest: FloatArray, offsets: IntArray, strides: IntArray, size: int, start: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Least sums of everything under each choice of a bucket's variables: (n,) entries, (n,) choices, (n, dimensions).

    Args:
        table: (entries, dimensions) of one cell, messages included.
        rest: alike, the least that is added to an entry; infinite where nothing is to be found.
        offsets: as in ``Bucket``.
        strides: likewise.
        size: likewise.
        start: likewise.
    """
    inputs, entries = offsets.shape
    live = 0
    for entry in range(entries):
        live += rest[start + entry, 0] < np.inf
    entry_of, choice_of = np.empty(live * size, np.int64), np.empty(live * size, np.int64)
    sums = np.empty((live * size, table.shape[1]))
    n = 0
    for entry in range(entries):
        if rest[start + entry, 0] < np.inf:
            for choice in range(size):
                entry_of[n], choice_of[n] = entry, choice
                for d in range(table.shape[1]):
                    sums[n, d] = rest[start + entry, d]
                for each in range(inputs):
                    row = offsets[each, entry] + strides[each] * choice
                    for d in range(table.shape[1]):
                        sums[n, d] += table[row, d]
                n += 1
    return entry_of, choice_of, sums


@compiled
def spread(
    table: FloatArray, rest: FloatArray, offsets: IntArray, strides: IntArray, start: int, first: int,
    entry: IntArray, choice: IntArray,
) -> None:  # fmt: skip
    """Fill the rests of a bucket's messages, its inputs from ``first`` on, over (n,) entries and choices."""
    dimensions = table.shape[1]
    total = np.empty(dimensions)
    for without in range(first, len(offsets)):
        for n in range(len(entry)):
            for d in range(dimensions):
                total[d] = rest[start + entry[n], d]
            for each in range(len(offsets)):
                if each != without:
                    row = offsets[each, entry[n]] + strides[each] * choice[n]
                    for d in range(dimensions):
                        total[d] += table[row, d]
            row = offsets[without, entry[n]] + strides[without] * choice[n]
            for d in range(dimensions):
                rest[row, d] = min(rest[row, d], total[d])


@compiled
def traced(table: FloatArray, offsets: IntArray, strides: IntArray, size: int, entry: int, dimension: int) -> int:
    """The choice of a variable that gives a message's entry in one dimension."""
    found, least = 0, np.inf
    for choice in range(size):
        total = 0.0
        for each in range(len(offsets)):
            total += table[offsets[each, entry] + strides[each] * choice, dimension]
        if total < least:
            least, found = total, choice
    return found


@compiled
def undominated(labels: FloatArray, group: IntArray) -> NDArray[np.bool_]:
    """(n,) whether no other label of its group is as low in every dimension; the first of equal ones stays.

    Args:
        labels: (n, dimensions), sorted by group, and within it so that no label is dominated by a later one.
        group: (n,) ascending.
    """
    n, dimensions = labels.shape
    keeps = np.ones(n, dtype=np.bool_)
    begin = 0
    for at in range(n):
        if at and group[at] != group[at - 1]:
            begin = at
        for other in range(begin, at):
            if keeps[other]:
                d = 0
                while d < dimensions and labels[other, d] <= labels[at, d]:
                    d += 1
                if d == dimensions:
                    keeps[at] = False
                    break
    return keeps
