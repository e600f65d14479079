"""The store: a file per finished cell, written atomically, read and merged from any number of directories."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from lts_bench.results.schema import Row, decode_row, encode_row, outcome
from lts_bench.specs.failure import InputError

GRID_FILE = "suite.json"


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a board must hold: every task with every seed under one budget, for each agent."""

    name: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: str


class Stored(msgspec.Struct, frozen=True):
    """What was read: rows by run id, the grids found beside them, and remarks for people."""

    rows: dict[str, Row]
    grids: dict[str, Grid]
    notes: tuple[str, ...]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a run after ``kill -9``, sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not .json: readers never take a half-written file for a row.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_output(path: Path, content: str | bytes) -> None:
    """Write a command's output file atomically.

    Raises:
        InputError: it cannot be written.
    """
    try:
        write_atomically(path, content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from error


def write_row(directory: Path, row: Row) -> Path:
    """Write a row to ``directory/<run id>.json`` and return that path."""
    path = directory / f"{row.run_id}.json"
    write_atomically(path, encode_row(row))
    return path


def write_grid(directory: Path, grid: Grid) -> None:
    """Write the grid of a suite beside its rows."""
    write_atomically(directory / GRID_FILE, msgspec.json.encode(grid, order="sorted") + b"\n")


def read_row(path: Path) -> Row:
    """Read the row of one file."""
    row = decode_row(path.read_bytes(), str(path))
    if row.run_id != path.stem:
        raise InputError("the file's name is not its run id", source=str(path), field="run_id", value=row.run_id)
    return row


def read_store(paths: Sequence[Path]) -> Stored:
    """Read rows (``*.json`` and ``*.jsonl``, also in subdirectories) and merge them by run id.

    Raises:
        InputError: nothing is there, a file is broken, or two rows of one id differ in outcome.
    """
    rows: dict[str, Row] = {}
    origin: dict[str, str] = {}
    grids: dict[str, Grid] = {}
    notes: list[str] = []
    for file in _files(paths):
        if file.name == GRID_FILE:
            _add_grid(grids, file)
            continue
        found = _lines(file, notes) if file.suffix == ".jsonl" else [(str(file), read_row(file))]
        for source, row in found:
            _merge(rows, origin, row, source)
    return Stored(dict(sorted(rows.items())), dict(sorted(grids.items())), tuple(notes))


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*.json*") if file.suffix in (".json", ".jsonl"))
        elif path.exists():
            yield path
        else:
            raise InputError("no such directory or file of results", value=str(path))


def _add_grid(grids: dict[str, Grid], file: Path) -> None:
    try:
        grid = msgspec.json.decode(file.read_bytes(), type=Grid)
    except msgspec.DecodeError as error:
        raise InputError(str(error), source=str(file)) from None
    if grids.setdefault(grid.name, grid) != grid:
        rule = "another suite of this name has other tasks, seeds or budget"
        raise InputError(rule, source=str(file), field="name", value=grid.name)


def _lines(file: Path, notes: list[str]) -> Iterable[tuple[str, Row]]:
    *whole, fragment = file.read_bytes().split(b"\n")
    if fragment:
        notes.append(f"{file}:{len(whole) + 1}: dropped an unfinished last line")
    for number, line in enumerate(whole, 1):
        source = f"{file}:{number}"
        yield source, decode_row(line, source)


def _merge(rows: dict[str, Row], origin: dict[str, str], row: Row, source: str) -> None:
    first = rows.setdefault(row.run_id, row)
    before = origin.setdefault(row.run_id, source)
    mine, theirs = outcome(row), outcome(first)
    if mine != theirs:
        field = next(name for name in mine if mine[name] != theirs[name])
        raise InputError(f"differs from {before}, though the run id is the same", source=source, field=field)
