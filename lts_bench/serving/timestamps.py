"""Dates with a time of day, to the nanosecond."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Years whose differences 64 bits of nanoseconds can hold; digits beyond the ninth are cut.
_DATE = re.compile(
    r"\s*((?:19[7-9]|2[01]\d)\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,9})?)\d*\s?(Z|UTC|[+-]\d\d:?\d\d)?\s*",
    re.ASCII | re.IGNORECASE,
)


def is_date(cell: Any) -> bool:
    """Whether a cell looks like ``2023-11-16 18:17:03.9799600``, with or without a time zone."""
    return isinstance(cell, str) and _DATE.fullmatch(cell) is not None


def parse_dates(cells: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Read dates as nanoseconds since 1970; a date without a zone is taken for UTC.

    Returns:
        (n,) nanoseconds, 0 where there is no date; (n,) whether it is a date; (n,) whether it has a time zone.
    """
    found = [_DATE.fullmatch(cell) if isinstance(cell, str) else None for cell in cells]
    zones = [match[3] if match else None for match in found]
    texts = [f"{match[1]}T{match[2]}" if match else "NaT" for match in found]
    try:
        local = np.array(texts, dtype="datetime64[ns]")
    except ValueError:  # such as 30 February
        local = np.array([_moment(text) for text in texts], dtype="datetime64[ns]")
    readable = ~np.isnat(local)
    offset_ns = {zone: _offset_ns(zone) for zone in set(zones)}
    utc = np.where(readable, local.astype(np.int64), 0)
    if any(offset_ns.values()):
        utc -= np.array([offset_ns[zone] for zone in zones], dtype=np.int64)
    return utc, readable, np.array([zone is not None for zone in zones], dtype=np.bool_)


def _moment(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "ns")
    except ValueError:
        return np.datetime64("NaT", "ns")


def _offset_ns(zone: str | None) -> int:
    if zone is None or zone.upper() in ("Z", "UTC"):
        return 0
    minutes = 60 * int(zone[1:3]) + int(zone[-2:])
    return int(f"{zone[0]}1") * minutes * 60 * 10**9
