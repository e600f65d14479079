"""Serving runs predicted by host constants that were refitted without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lts_bench.calibrate.engine import SHARED, Part, Samples
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import InputError
from lts_bench.validate.measured import measured_engine
from lts_bench.validate.table import Row, SkipError, Table

LEFT_OUT = ("config_name", "system")
"""Columns whose cells are left out together, one after the other."""


class Unseen(NamedTuple):
    """A measured value.

    Attributes:
        seen: predicted by constants refitted to all runs.
        unseen: predicted without the runs that share the row's cell in a column.
    """

    row: Row
    truth: float
    seen: float
    unseen: Mapping[str, float]


def held_out(table: Table, models: Path, part: Part) -> list[Unseen]:
    """Refit one part of the constants and tell what it predicts for runs that it did not see.

    The host's constants are those of all engines together, a request's those of each engine.
    """
    engines = {SHARED} if part == "host" else set(_engines(table.rows))
    found: list[Unseen] = []
    for name in sorted(engines):
        try:
            samples = Samples(table, load_engine(name), models, part)
        except InputError:  # too few runs to fit
            continue
        found += _unseen(samples)
    return found


def _engines(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        with suppress(SkipError):
            yield measured_engine(row.get("engine", "")).name


def _unseen(samples: Samples) -> list[Unseen]:
    seen = samples.at(samples.fit())
    found = {name: values for name in LEFT_OUT if (values := samples.held_out(name)) is not None}
    return [
        Unseen(row, float(truth), float(own), {name: float(values[place]) for name, values in found.items()})
        for place, (row, truth, own) in enumerate(zip(samples.rows, samples.truth, seen, strict=True))
    ]
