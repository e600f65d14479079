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
        joined = np.concatenate(self._parts)
        self._parts.clear()
        self._filled = 0
        return joined


@dataclass(frozen=True)
class EdgeTable:
    """Where the rows of joined edges stand: ``base[degrees] + i · targets[axes] + j``.

    Attributes:
        block: index of the edges' block.
        source: decision of the producer, i is its choice (mapped by ``letters``).
        target: decision of the consumer.
        targets: positions of the consumer on a mesh of one and of two axes.
        decodes: whether the rows hold anything beside the prefill.
    """

    block: int
    source: int
    target: int
    base: IntArray
    targets: tuple[int, int]
    decodes: bool


@dataclass(frozen=True)
class MemoryTable:
    """Where the memory rows of one operator stand: ``base[degrees] + i``."""

    block: int
    decision: int
    base: IntArray


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
