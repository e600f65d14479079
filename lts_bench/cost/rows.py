"""Rows of the tables: where they are kept, and where those of an edge, an operator or a stage stand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lts_bench.space.operators import Operator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)
LINE = 8
"""Phases that are gathered at once: a cache line. Most strategies need few."""
MEMORY = 4
"""Columns of a memory row."""
ILLEGAL_SECONDS = 1e15
"""Stands for infinity, so that sums stay finite."""


def distinct(keys: Iterable[Key]) -> tuple[list[Key], IntArray]:
    """Distinct keys in order of appearance, and the position of every key among them."""
    positions: dict[Key, int] = {}
    rows = [positions.setdefault(key, len(positions)) for key in keys]
    return list(positions), np.array(rows, dtype=np.int64)


def positions(operator: Operator) -> tuple[int, int]:
    """Distinct choices of an operator on a mesh of one and of two axes; x is idle on one."""
    return len(operator.letters), len(operator.choices)


class RowStore:
    """Rows that are appended table by table and joined at the end."""

    def __init__(self) -> None:
        self._parts: list[FloatArray] = []
        self._filled = 0

    def add(self, rows: FloatArray) -> int:
        """Append rows, all dimensions but the last flattened; the position of the first."""
        flat = rows.reshape(-1, rows.shape[-1])
        self._parts.append(flat)
        first = self._filled
        self._filled += len(flat)
        return first

    def join(self) -> FloatArray:
        """All rows in one array; the store is empty afterwards."""
        rows = np.concatenate(self._parts) if self._parts else np.zeros((0, 1))
        self._parts.clear()
        self._filled = 0
        return rows


def distinct_strips(rows: FloatArray, width: int) -> tuple[FloatArray, NDArray[np.uint32]]:
    """Distinct rows in strips, and (rows,) which of them every row is."""
    first, which = _alike(rows)
    return in_strips(rows[first], width), which


def _alike(rows: FloatArray) -> tuple[IntArray, NDArray[np.uint32]]:
    """(distinct,) the first of equal rows in their order, and (rows,) which of these every row is.

    Rows are told apart by 64 bits: the sum of their own bits times odd numbers.
    """
    factors = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], dtype=np.uint64) * 2 + 1
    keys = np.ascontiguousarray(rows).view(np.uint64) @ factors
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return first[order], rank[which]


def in_strips(rows: FloatArray, width: int) -> FloatArray:
    """(columns ÷ width, rows, width) rows in strips of so many columns, the last one filled up with zeros.

    The first row begins a cache line.
    """
    strips = _aligned((-(-rows.shape[1] // width), len(rows), width))
    for number, strip in enumerate(strips):
        given = rows[:, number * width : (number + 1) * width]
        strip[:, : given.shape[1]] = given
        strip[:, given.shape[1] :] = 0.0
    return strips


def _aligned(shape: tuple[int, ...]) -> FloatArray:
    """An empty array that begins a cache line of 64 bytes."""
    size = int(np.prod(shape))
    buffer = np.empty(size + 7)
    first = -buffer.ctypes.data % 64 // 8
    return buffer[first : first + size].reshape(shape)


@dataclass(frozen=True)
class Place:
    """Where the rows of joined edges, or of one operator, stand: ``base[degrees] + i · targets[axes] + j``.

    Attributes:
        block: index of the block.
        source: decision of the producer, i is its choice (mapped by ``letters``); an operator's own.
        base: (degrees,) first rows.
        target: decision of the consumer, j is its choice; 0 where the source decides alone, and j is 0.
        targets: positions of the consumer on a mesh of one and of two axes.
        decodes: whether the rows hold anything beside the prefill.
    """

    block: int
    source: int
    base: IntArray
    target: int = 0
    targets: tuple[int, int] = (1, 1)
    decodes: bool = True


@dataclass(frozen=True)
class StageRows:
    """Blocks of pipeline stages, by pp.

    Attributes:
        counts: (rows, blocks) blocks of the stages that may be the heaviest.
        base: (degrees,) first of the degrees' ``many`` rows.
        totals: (distinct pp, blocks) blocks of all stages together; ``total`` (degrees,) picks the row.
    """

    counts: IntArray
    base: IntArray
    many: IntArray
    totals: IntArray
    total: IntArray
