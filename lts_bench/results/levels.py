"""The verification levels of agents, recorded for boards: each holds for the very rows that were verified.

L0: well-formed and complete; L1: scored again; L2: some cells run again; L3: run on held-out tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from lts_bench.results.checks import Record
from lts_bench.results.schema import Row, encode_row
from lts_bench.results.store import write_output
from lts_bench.results.verification import read_readable
from lts_bench.specs.loading import convert, read_yaml

LEVELS_FILE = "levels.yaml"
LevelName = Literal["L0", "L1", "L2", "L3"]
ALWAYS: tuple[LevelName, ...] = ("L0", "L1")
"""What every verification checks."""


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The level of an agent's rows of a suite, and the digest of these rows."""

    suite: str
    agent: str
    level: LevelName
    rows: str


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    levels: tuple[Level, ...]


def read_levels(paths: Sequence[Path]) -> list[Level]:
    """Return what is recorded in some directories of results.

    Raises:
        InputError: a record is broken.
    """
    files = [path / LEVELS_FILE for path in paths]
    return [level for file in files if file.is_file() for level in _read(file)]


def record_levels(file: Path, found: Iterable[Level]) -> None:
    """Write levels to a file; what it says of others stays, and the higher level of two of the same rows.

    Raises:
        InputError: the file is there and broken, or cannot be written.
    """
    known = {(level.suite, level.agent): level for level in (_read(file) if file.is_file() else ())}
    for level in found:
        before = known.get((level.suite, level.agent), level)
        known[level.suite, level.agent] = before if before.rows == level.rows and before.level > level.level else level
    lines = [msgspec.to_builtins(level) for _, level in sorted(known.items())]
    write_output(file, yaml.safe_dump({"levels": lines}, sort_keys=False))


def _read(file: Path) -> tuple[Level, ...]:
    return convert(read_yaml(file), Recorded, str(file)).levels


def rows_digest(rows: Iterable[Row]) -> str:
    """Return the sha256 of rows, in whatever order they come."""
    return hashlib.sha256(b"".join(sorted(map(encode_row, rows)))).hexdigest()


def labelled(rows: Iterable[Row], label: str) -> list[Row]:
    """Return the rows of an agent."""
    return [row for row in rows if row.label == label]


def reached(paths: Sequence[Path], found: Sequence[Record], ran: Sequence[LevelName]) -> list[Level]:
    """Return the level of each agent that reached one, by suite.

    Args:
        paths: the results that were verified.
        found: what was found.
        ran: the levels above ``ALWAYS`` whose checks were made, ascending.
    """
    stored, sources = read_readable(paths, [])
    failures = [record for record in found if not record.ok]
    labels = {row.label for row in stored.rows.values()}
    agents = {sources[row.run_id]: row.label for row in stored.rows.values()}
    broken: dict[str, set[str]] = {label: set() for label in labels}
    for record in failures:
        # What no agent can be blamed for counts against all.
        named = {agents.get(record.file, ""), record.field, record.file.partition(" ")[0]} & labels
        for label in named or labels:
            broken[label].add("L3" if record.level == "audit" else record.level)
    levels = []
    for grid in stored.suites():
        mine = grid.own_rows(stored.rows.values())
        levels += [
            Level(grid.name, label, level, rows_digest(labelled(mine, label)))
            for label in sorted({row.label for row in mine})
            if (level := _passed((*ALWAYS, *ran), broken[label]))
        ]
    return levels


def _passed(checked: Sequence[LevelName], broken: Collection[str]) -> LevelName | None:
    """Return the highest level up to which none is broken."""
    return max(takewhile(lambda level: level not in broken, checked), default=None)
