"""Tables of pages as data: what a cell says, what it is sorted by, where it leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lts_bench.report.tables import NONE


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: what is shown.
        value: what it is sorted by; its text where None.
        href: a page of the site, from its root.
        colour: of the background.
        marked: whether it differs from what it stands beside.
        badges: what is shown as badges in place of the text.
    """

    text: str
    value: float | None = None
    href: str | None = None
    colour: str | None = None
    marked: bool = False
    badges: tuple[str, ...] = ()


class Table(NamedTuple):
    """A table of a page.

    Attributes:
        name: its id in the page.
        titles: a column each.
        heads: the column of the rows' heads.
        filters: columns whose values can be chosen.
        numbers: columns of numbers.
        sortable: whether a reader may sort it.
    """

    name: str
    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    heads: int = 0
    filters: tuple[int, ...] = ()
    numbers: frozenset[int] = frozenset()
    sortable: bool = True


def numeric(value: float | None, form: str = ".4f") -> Cell:
    """Return the cell of a number; None is a dash, which stays at the bottom in both orders."""
    return Cell(NONE) if value is None else Cell(format(value, form), float(value))


def between(interval: tuple[float, float] | None, form: str = ".4f") -> Cell:
    """Return the cell of an interval, sorted by its lower end."""
    if interval is None:
        return Cell(NONE)
    return Cell(f"{interval[0]:{form}} to {interval[1]:{form}}", interval[0])
