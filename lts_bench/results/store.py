"""The store: a file per finished cell, written atomically, read and merged from any number of directories."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from lts_bench.results.card import CARD_FILE
from lts_bench.results.grids import GRID_FILE, GRID_FILES, Grid, add_grids, built_in_grids
from lts_bench.results.schema import Row, decode_row, encode_row, outcome
from lts_bench.specs.failure import InputError


class Stored(msgspec.Struct, frozen=True):
    """What was read: rows by run id, the grids found beside them, and remarks for people."""

    rows: dict[str, Row]
    grids: dict[str, Grid]
    notes: tuple[str, ...]

    def suites(self) -> list[Grid]:
        """Return the grids that the rows belong to: those found beside them, else those of built-in suites.

        Raises:
            InputError: there are no rows, or no suite holds them.
        """
        tasks = sorted({row.task for row in self.rows.values()})
        if not tasks:
            raise InputError("no results are there")
        grids = self.grids or built_in_grids(tasks)
        if not grids:
            raise InputError("no suite has these tasks", field="task", value=tasks[0])
        return [grids[name] for name in sorted(grids)]


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


class Document(NamedTuple):
    """A row as it lies in a file: where it stands, its JSON, the run id that the file's name promises, if any."""

    source: str
    data: bytes
    promised: str | None

    def row(self) -> Row:
        """Read it.

        Raises:
            InputError: it is broken.
        """
        row = decode_row(self.data, self.source)
        if self.promised not in (None, row.run_id):
            raise InputError("the file's name is not its run id", source=self.source, field="run_id", value=row.run_id)
        return row


def read_row(path: Path) -> Row:
    """Read the row of one file."""
    return Document(str(path), path.read_bytes(), path.stem).row()


def read_store(paths: Sequence[Path]) -> Stored:
    """Read rows (``*.json`` and ``*.jsonl``, also in subdirectories) and merge them by run id.

    Raises:
        InputError: nothing is there, a file is broken, or two rows of one id differ in outcome.
    """
    rows: dict[str, Row] = {}
    origin: dict[str, str] = {}
    grids: dict[str, Grid] = {}
    notes: list[str] = []
    for file in result_files(paths):
        if file.name in GRID_FILES:
            add_grids(grids, file)
            continue
        for document in documents(file, notes):
            merge(rows, origin, document.row(), document.source)
    return Stored(dict(sorted(rows.items())), dict(sorted(grids.items())), tuple(notes))


def result_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Files of rows, grids and cards in some directories, sorted.

    Raises:
        InputError: a path does not exist.
    """
    for path in paths:
        if path.is_dir():
            found = [*path.rglob("*.json"), *path.rglob("*.jsonl"), *path.rglob(CARD_FILE)]
            yield from sorted(found)
        elif path.exists():
            yield path
        else:
            raise InputError("no such directory or file of results", value=str(path))


def documents(file: Path, notes: list[str]) -> Iterator[Document]:
    """The rows of one file; a remark is added to ``notes`` where the last line is unfinished."""
    if file.suffix == ".json":
        yield Document(str(file), file.read_bytes(), file.stem)
        return
    *whole, fragment = file.read_bytes().split(b"\n")
    if fragment:
        notes.append(f"{file}:{len(whole) + 1}: dropped an unfinished last line")
    for number, line in enumerate(whole, 1):
        yield Document(f"{file}:{number}", line, None)


def merge(rows: dict[str, Row], origin: dict[str, str], row: Row, source: str) -> None:
    """Add a row to those of other files, by run id.

    Raises:
        InputError: one of the same id differs in its outcome.
    """
    first = rows.setdefault(row.run_id, row)
    before = origin.setdefault(row.run_id, source)
    mine, theirs = outcome(row), outcome(first)
    if mine != theirs:
        field = next(name for name in mine if mine[name] != theirs[name])
        raise InputError(f"differs from {before}, though the run id is the same", source=source, field=field)
