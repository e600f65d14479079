"""Rows of the tables: where they are kept, and where those of an edge, an operator or a stage stand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cache
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
CHUNK = 512
"""Rows that are moved together: few enough for the processor's cache."""
ILLEGAL_SECONDS = 1e15
"""Stands for infinity, so that sums stay finite."""


def distinct(keys: Iterable[Key]) -> tuple[list[Key], IntArray]:
    """Distinct keys in order of appearance, and the position of every key among them."""
    keys = list(keys)
    positions = {key: position for position, key in enumerate(dict.fromkeys(keys))}
    return list(positions), np.fromiter(map(positions.__getitem__, keys), dtype=np.int64, count=len(keys))


def distinct_rows(rows: IntArray) -> tuple[IntArray, IntArray]:
    """(distinct,) the first of equal rows in their order, and (rows,) which of these every row is."""
    first, which = _alike(_hashes(rows))
    return first, which.astype(np.int64)


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


class DistinctRows:
    """Rows that are appended table by table, equal ones kept once."""

    def __init__(self) -> None:
        self._parts: list[FloatArray] = []
        self._keys: list[NDArray[np.uint64]] = []
        self._choices: list[tuple[int, IntArray | None]] = []
        self._filled = 0

    def add(self, rows: FloatArray, choices: IntArray | None = None) -> int:
        """Append (keys, …, columns) rows; the position of the first.

        Args:
            rows: all dimensions but the last are flattened.
            choices: which of a key's rows stand for its choices, if not every one for one.
        """
        flat = rows.reshape(-1, rows.shape[-1])
        self._parts.append(flat)
        self._keys.append(_hashes(flat))
        self._choices.append((len(rows), choices))
        begin = self._filled
        self._filled += len(flat) if choices is None else len(rows) * choices.size
        return begin

    def strips(self, width: int) -> tuple[FloatArray, NDArray[np.uint32]]:
        """The distinct rows ``in_strips``, in order of appearance, and (rows,) which of them every row is."""
        if not self._parts:
            return in_strips((), 0, 1, width), np.zeros(0, dtype=np.uint32)
        first, which = _alike(np.concatenate(self._keys))
        begins = np.cumsum([0, *map(len, self._parts)])[:-1]
        mine = np.split(first, np.searchsorted(first, begins[1:]))
        kept = (
            part[rows[at : at + CHUNK] - begin]
            for part, rows, begin in zip(self._parts, mine, begins, strict=True)
            for at in range(0, len(rows), CHUNK)
        )
        chosen = map(_chosen, np.split(which, begins[1:]), self._choices)
        return in_strips(kept, len(first), self._parts[0].shape[1], width), np.concatenate(list(chosen))


def _chosen(which: NDArray[np.uint32], keyed: tuple[int, IntArray | None]) -> NDArray[np.uint32]:
    """The rows of a table's choices: of every one of so many keys those that stand for them."""
    keys, choices = keyed
    return which if choices is None else which.reshape(keys, -1)[:, choices.ravel()].ravel()


def _hashes(rows: FloatArray | IntArray) -> NDArray[np.uint64]:
    """(rows,) 64 bits that tell rows apart: the sum of their own bits times odd numbers."""
    sums: NDArray[np.uint64] = np.einsum("rc,c->r", np.ascontiguousarray(rows).view(np.uint64), _odd(rows.shape[1]))
    return sums


@cache
def _odd(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(0, 2**63, count, dtype=np.uint64) * 2 + 1


def _alike(keys: NDArray[np.uint64]) -> tuple[IntArray, NDArray[np.uint32]]:
    """(distinct,) the first of equal keys in their order, and (keys,) which of these every key is."""
    order = _order(keys)
    ordered = keys[order]
    new = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    begins = np.flatnonzero(new)
    leads = np.zeros(len(keys), dtype=np.bool_)
    leads[order[begins]] = True
    rank = np.cumsum(leads, dtype=np.uint32)[order[begins]] - np.uint32(1)
    which = np.empty(len(keys), dtype=np.uint32)
    which[order] = np.repeat(rank, np.diff(begins, append=len(keys)))
    return np.flatnonzero(leads), which


def _order(keys: NDArray[np.uint64]) -> IntArray:
    """Positions in an order in which equal keys stand together, the first of them first.

    Positions in the place of the keys' lowest bits are sorted along, faster than NumPy sorts positions by keys. Keys
    that are equal but for these bits may mix, and then equal ones stand apart: of rows, one too many is kept.
    """
    lowest = np.uint64((1 << len(keys).bit_length()) - 1)
    order = np.sort((keys & ~lowest) | np.arange(len(keys), dtype=np.uint64))
    order &= lowest
    return order.view(np.int64)


def in_strips(parts: Iterable[FloatArray], rows: int, columns: int, width: int) -> FloatArray:
    """(columns ÷ width, rows, width) rows in strips of so many columns, the last one filled up with zeros.

    The first row begins a cache line. The parts hold all rows one after the other.
    """
    strips = _aligned((-(-columns // width), rows, width))
    strips[-1, :, columns - (len(strips) - 1) * width :] = 0.0
    begin = 0
    for part in parts:
        for number, strip in enumerate(strips):
            given = part[:, number * width : (number + 1) * width]
            strip[begin : begin + len(part), : given.shape[1]] = given
        begin += len(part)
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
