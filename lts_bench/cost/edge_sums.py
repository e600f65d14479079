"""The compiled sums of a block's edges: rows of seconds, several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lts_bench.cost.compiled import compiled, inlined
from lts_bench.cost.lines import add_four_lines, add_line, add_two_lines, begin_line, begin_two_lines
from lts_bench.cost.program import FloatArray, Index, IndexArray, Program, Rows

if TYPE_CHECKING:
    from lts_bench.cost.gathering import Strategies


@inlined
def add_pair(
    rows: Rows, k: Index, last: Index, begins: bool, table: FloatArray, axes: Index, given: Strategies, first: int,
    live: IndexArray, many: int, sums: FloatArray,
) -> None:  # fmt: skip
    """Add the rows of two edges, or of one that is also the ``last``."""
    base, codes, degrees, which = rows.base, given.codes, given.degrees, rows.which
    source, target, stride = rows.source[k], rows.target[k], rows.strides[axes, k]
    last_source, last_target, last_stride = rows.source[last], rows.target[last], rows.strides[axes, last]
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        at = np.uint64(first) + n
        row = base[degrees[at], k] + codes[at, source] * stride + codes[at, target]
        last_row = base[degrees[at], last] + codes[at, last_source] * last_stride + codes[at, last_target]
        if begins and last > k:
            begin_two_lines(sums, n, 1.0, table, which[row], which[last_row], 0.0)
        elif begins:
            begin_line(sums, n, 1.0, table, which[row], 0.0)
        elif last > k:
            add_two_lines(sums, n, 1.0, table, which[row], which[last_row])
        else:
            add_line(sums, n, 1.0, table, which[row])


@inlined
def add_four(
    rows: Rows, a: Index, table: FloatArray, axes: Index, given: Strategies, first: int, live: IndexArray, many: int,
    sums: FloatArray,
) -> None:  # fmt: skip
    """Add the rows of four edges from ``a`` on."""
    base, codes, degrees, which = rows.base, given.codes, given.degrees, rows.which
    b, c, d = a + np.uint64(1), a + np.uint64(2), a + np.uint64(3)
    a_source, a_target, a_stride = rows.source[a], rows.target[a], rows.strides[axes, a]
    b_source, b_target, b_stride = rows.source[b], rows.target[b], rows.strides[axes, b]
    c_source, c_target, c_stride = rows.source[c], rows.target[c], rows.strides[axes, c]
    d_source, d_target, d_stride = rows.source[d], rows.target[d], rows.strides[axes, d]
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        at = np.uint64(first) + n
        its = degrees[at]
        a_row = base[its, a] + codes[at, a_source] * a_stride + codes[at, a_target]
        b_row = base[its, b] + codes[at, b_source] * b_stride + codes[at, b_target]
        c_row = base[its, c] + codes[at, c_source] * c_stride + codes[at, c_target]
        d_row = base[its, d] + codes[at, d_source] * d_stride + codes[at, d_target]
        add_four_lines(sums, n, 1.0, table, which[a_row], which[b_row], which[c_row], which[d_row])


@compiled
def add_rows(
    rows: Rows, block: int, table: FloatArray, program: Program, given: Strategies, first: int, live: IndexArray,
    many: int, sums: FloatArray, begins: bool,
) -> None:  # fmt: skip
    """Add the rows of a block's edges to the sums of the first ``many`` live strategies, all of as many axes.

    Several edges go together, so that a sum is read and written less often; where it ``begins`` it is not read at all,
    and the block has an edge.
    """
    axes = np.uint64(program.two_axes[given.degrees[np.uint64(first)]])
    start, end = np.uint64(rows.first[block]), np.uint64(rows.first[block + 1])
    k, one, two, four = start, np.uint64(1), np.uint64(2), np.uint64(4)
    while k < end:
        fresh = begins and k == start
        if fresh or end - k < four:
            add_pair(rows, k, min(k + one, end - one), fresh, table, axes, given, first, live, many, sums)
            k += two
        else:
            add_four(rows, k, table, axes, given, first, live, many, sums)
            k += four
