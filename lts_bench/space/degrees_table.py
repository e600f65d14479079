"""Many degrees as the rows of an array, one by one `Degrees`: a large cluster has thousands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lts_bench.space.strategy import Degrees

IntArray = NDArray[np.int64]


class DegreesTable(Sequence[Degrees]):
    """A sequence of degrees.

    Attributes:
        columns: (n,) each field of `Degrees` by name.
    """

    def __init__(self, rows: IntArray) -> None:
        """Take (n, fields) rows, fields in the order of `Degrees`."""
        self._rows = rows
        self.columns: dict[str, IntArray] = {
            field.name: column for field, column in zip(fields(Degrees), np.ascontiguousarray(rows.T), strict=True)
        }

    @classmethod
    def of(cls, degrees: Iterable[Degrees]) -> DegreesTable:
        """The table of some degrees, itself if it is one."""
        if isinstance(degrees, cls):
            return degrees
        return cls(np.array([astuple(each) for each in degrees], dtype=np.int64).reshape(-1, len(fields(Degrees))))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Degrees: ...

    @overload
    def __getitem__(self, index: slice) -> DegreesTable: ...

    def __getitem__(self, index: int | slice) -> Degrees | DegreesTable:
        """One of them, or a part."""
        if isinstance(index, slice):
            return DegreesTable(self._rows[index])
        return Degrees(*self._rows[index].tolist())
