"""Rows of CSV, JSON Lines and JSON files, column by column and a chunk at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import msgspec

from lts_bench.specs.failure import InputError

ROWS_PER_CHUNK = 1 << 10
"""Few enough that their text is freed before the garbage collector walks through it again and again."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file.

    Attributes:
        names: of the columns, as the file has them; some may occur twice.
        lines: (n,) where each row ends in the file, from 1; in a JSON list the number of the record.
        columns: name → (n,) cells; None where a row has none.
        broken: row of the chunk → what is wrong with it as a whole.
    """

    names: Sequence[str]
    lines: Sequence[int]
    columns: dict[str, Sequence[Any]]
    broken: dict[int, str]


def read_chunks(path: Path) -> Iterator[Chunk]:
    """Read a file with a header, or with a JSON object in each line, or a JSON list of objects.

    The first chunk names the columns; it is there even where the file has no rows.

    Raises:
        InputError: the file cannot be read, is empty, or is none of these.
    """
    source = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            start = _first_character(file)
            if start == "[":
                yield from _record_chunks(enumerate(_json_list(file.read(), source), 1))
            elif start == "{":
                yield from _record_chunks(_json_lines(file))
            elif start:
                yield from _csv_chunks(file, source)
            else:
                raise InputError("the file is empty", source=source)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=source) from error
    except UnicodeDecodeError as error:
        raise InputError("cannot be read: not UTF-8", source=source) from error


def _first_character(file: TextIO) -> str:
    """The first character that is not white space, or none; the file is at its beginning again."""
    for line in file:
        if text := line.strip():
            break
    else:
        text = ""
    file.seek(0)
    return text[:1]


def _csv_chunks(file: TextIO, source: str) -> Iterator[Chunk]:
    reader = csv.reader(file, strict=True)
    rows = ((reader.line_num, cells) for cells in reader if cells)
    try:
        header = next(rows)[1]
        first = True
        while (chunk := list(islice(rows, ROWS_PER_CHUNK))) or first:
            yield _csv_chunk(header, chunk)
            first = False
    except csv.Error as error:
        raise InputError(f"not a CSV table: {error}", source=source, field=f"line {reader.line_num}") from error


def _csv_chunk(header: Sequence[str], rows: list[tuple[int, list[str]]]) -> Chunk:
    width = len(header)
    lines = [line for line, _ in rows]
    broken = {
        index: f"must have {width} cells, as the header has, not {len(cells)}"
        for index, (_, cells) in enumerate(rows)
        if len(cells) != width
    }
    whole = [[None] * width if index in broken else cells for index, (_, cells) in enumerate(rows)]
    columns = zip(*whole, strict=True) if whole else [()] * width
    return Chunk(header, lines, dict(zip(header, columns, strict=True)), broken)


def _json_list(text: str, source: str) -> list[Any]:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError as error:
        raise InputError(f"not a JSON list: {error}", source=source) from error


def _json_lines(file: TextIO) -> Iterator[tuple[int, Any]]:
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        try:
            yield number, decode(line)
        except msgspec.DecodeError as error:
            yield number, error


def _record_chunks(records: Iterable[tuple[int, Any]]) -> Iterator[Chunk]:
    """Chunks of JSON objects; the keys in the first chunk are the columns."""
    records = iter(records)
    names: dict[str, None] | None = None
    while (chunk := list(islice(records, ROWS_PER_CHUNK))) or names is None:
        rows = [record if isinstance(record, dict) else {} for _, record in chunk]
        if names is None:
            names = {name: None for row in rows for name in row}
        broken = {
            index: f"not valid JSON: {record}" if isinstance(record, msgspec.DecodeError) else "must be a JSON object"
            for index, (_, record) in enumerate(chunk)
            if not isinstance(record, dict)
        }
        lines = [line for line, _ in chunk]
        yield Chunk(tuple(names), lines, {name: [row.get(name) for row in rows] for name in names}, broken)
