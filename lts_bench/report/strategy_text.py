"""A strategy, or the part of one that is decided, as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lts_bench.space.spans import SCALE_UP, spans
from lts_bench.space.strategy import Degrees

OPEN = ""
"""Stands for a letter that is not decided yet."""
UNKNOWN = "?"
"""Stands for the letter of a choice that does not exist."""

Sharding = Mapping[str, tuple[str, ...]]
Rows = list[tuple[str, tuple[str, ...]]]


def shown_axes(sharding: Sharding) -> tuple[str, ...]:
    """Return the mesh axes that some operator is split over: those of tp, and etp where there are experts."""
    return ("tx", "ty", "etp") if any(len(choice) == 1 for choice in sharding.values()) else ("tx", "ty")


def shown_degrees(sharding: Sharding) -> tuple[str, ...]:
    """Return the degrees that mean something: those of experts only where there are some."""
    return ("replicas", "pp", "dp", "tx", "ty", *(("ep", "etp") if "etp" in shown_axes(sharding) else ()))


def letters(degrees: Degrees | None, sharding: Sharding) -> Rows:
    """Return each operator with a letter for each shown axis: ``-`` where it has none or the axis is of size 1."""
    axes = shown_axes(sharding)
    idle = {axis for axis in axes if degrees is not None and getattr(degrees, axis) == 1}
    rows = []
    for key, choice in sharding.items():
        own = ("etp",) if len(choice) == 1 else ("tx", "ty")
        split = {axis: letter for axis, letter in zip(own, choice, strict=True) if axis not in idle or letter == OPEN}
        rows.append((key, tuple(split.get(axis, "-") for axis in axes)))
    return rows


def strategy_text(degrees: Degrees | None, sharding: Sharding, domain: int | None = None) -> str:
    """Return a strategy as text: where the group of each degree lies, then every operator's split.

    Args:
        degrees: None while they are open.
        sharding: a letter an axis of every operator; `OPEN` while it is.
        domain: devices of a scale-up domain of the cluster, if one is known.
    """
    found = {span.name: span for span in spans(degrees, domain)} if degrees else {}
    table = [("degree", "size", "level")]
    for name in shown_degrees(sharding):
        size, level = (str(found[name].size), found[name].level) if name in found else ("·", "")
        table.append((name, size, f"{level} (domains of {domain})" if level == SCALE_UP else level))
    splits = [("operator", *shown_axes(sharding))]
    splits += [(key, *(letter or "·" for letter in row)) for key, row in letters(degrees, sharding)]
    return f"{_aligned(table)}\n{_aligned(splits)}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)
