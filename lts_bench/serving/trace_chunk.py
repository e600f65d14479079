"""What the rows of a trace file say: the cells of a chunk become arrays, every row checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.timestamps import is_date, parse_dates
from lts_bench.serving.trace import NO_SESSION
from lts_bench.serving.trace_cells import (
    HASH_IDS_RULE,
    NUMBER_RULE,
    TOKENS_RULE,
    Bools,
    parse_hash_ids,
    parse_numbers,
    parse_tokens,
)
from lts_bench.serving.trace_formats import DATE, TICKS_PER_S, Columns
from lts_bench.serving.trace_rows import Chunk
from lts_bench.specs.failure import InputError

BAD_ROW, ZERO_PROMPT, ZERO_OUTPUT = "bad_row", "zero_prompt", "zero_output"
"""Reasons in ``Trace.skipped``."""
DATE_RULE = "must be a date and a time of day, such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00+00:00"


class Requests(NamedTuple):
    """Columns of requests in the order of the file; zeros or nothing where the file lacks one.

    ``ticks`` (n,) arrival times in ticks, ``id_counts`` (n,) hash ids of each request, ``ids`` those of all.
    """

    ticks: NDArray[Any]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    sessions: NDArray[np.int64]
    id_counts: NDArray[np.int64]
    ids: NDArray[np.uint64]

    def select(self, kept: Bools) -> Requests:
        """Return the requests where ``kept`` is true."""
        return Requests(
            ticks=self.ticks[kept],
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=self.output_tokens[kept],
            sessions=self.sessions[kept],
            id_counts=self.id_counts[kept],
            ids=self.ids[np.repeat(kept, self.id_counts)],
        )


class Check(NamedTuple):
    """Which rows of a column keep its rule."""

    column: str
    rule: str
    kept: Bools


@dataclass
class ChunkReader:
    """Reads the chunks of one file, one after the other.

    Attributes:
        source: the file, for messages.
        columns: what its columns mean.
        time_unit: a key of ``TICKS_PER_S``, or ``DATE``.
        model: only requests of this model; None for all.
        skip_bad_rows: count them instead of refusing the file.
        skipped: rows that were left out, by reason.
        odd_totals: rows whose total is not prompt + output.
        models: all models seen.
        block_tokens: as a column tells; None where there is none.
    """

    source: str
    columns: Columns
    time_unit: str
    model: str | None = None
    skip_bad_rows: bool = False
    skipped: Counter[str] = field(default_factory=Counter)
    odd_totals: int = 0
    models: set[str] = field(default_factory=set)
    block_tokens: int | None = None
    _zoned: bool | None = None
    _sessions: dict[str, int] = field(default_factory=dict)

    @property
    def ticks_per_s(self) -> int:
        """Ticks of the arrival times in a second."""
        return TICKS_PER_S["ns" if self.time_unit == DATE else self.time_unit]

    def read(self, chunk: Chunk) -> Requests:
        """Return the requests of a chunk, less those that are skipped.

        Raises:
            InputError: naming line, column, value and rule of the first bad row.
        """
        checks: list[Check] = []
        ticks = self._ticks(chunk, checks)
        prompt = self._tokens(chunk, self.columns.prompt, checks)
        output = self._tokens(chunk, self.columns.output, checks)
        id_counts, ids = self._hash_ids(chunk, checks)
        self._read_block_tokens(chunk, checks)
        good = self._good_rows(chunk, checks)
        wanted = good & self._of_model(chunk)
        self._count_totals(chunk, prompt + output, wanted)
        self._skip(BAD_ROW, ~good)
        self._skip(ZERO_OUTPUT, wanted & (output == 0))
        self._skip(ZERO_PROMPT, wanted & (output > 0) & (prompt == 0))
        requests = Requests(ticks, prompt, output, self._session_numbers(chunk), id_counts, ids)
        return requests.select(wanted & (output > 0) & (prompt > 0))

    def _optional(self, chunk: Chunk, name: str) -> Sequence[Any] | None:
        column = self.columns.optional.get(name)
        return None if column is None else chunk.columns[column]

    def _error(self, chunk: Chunk, row: int, column: str, rule: str) -> InputError:
        place = f"line {chunk.lines[row]}, {column}"
        return InputError(rule, source=self.source, field=place, value=chunk.columns[column][row])

    def _ticks(self, chunk: Chunk, checks: list[Check]) -> NDArray[Any]:
        column = self.columns.time
        if column is None:
            return np.zeros(len(chunk.lines), dtype=np.int64)
        if self.time_unit != DATE:
            ticks, kept = parse_numbers(chunk.columns[column])
            checks.append(Check(column, NUMBER_RULE, kept))
            return ticks
        ticks, kept, zoned = parse_dates(chunk.columns[column])
        checks.append(Check(column, DATE_RULE, kept))
        self._refuse_mixed_zones(chunk, column, kept, zoned)
        return ticks

    def _refuse_mixed_zones(self, chunk: Chunk, column: str, dates: Bools, zoned: Bools) -> None:
        if self._zoned is None and dates.any():
            self._zoned = bool(zoned[np.argmax(dates)])
        others = dates & (zoned != self._zoned)
        if others.any():
            rule = f"dates with and without a time zone are mixed: those before {'have' if self._zoned else 'lack'} one"
            raise self._error(chunk, int(np.argmax(others)), column, rule)

    def _tokens(self, chunk: Chunk, column: str, checks: list[Check]) -> NDArray[np.int64]:
        tokens, kept = parse_tokens(chunk.columns[column])
        checks.append(Check(column, TOKENS_RULE, kept))
        return tokens

    def _hash_ids(self, chunk: Chunk, checks: list[Check]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        cells = self._optional(chunk, "hash_ids")
        if cells is None:
            return np.zeros(len(chunk.lines), dtype=np.int64), np.empty(0, dtype=np.uint64)
        counts, ids, kept = parse_hash_ids(cells)
        checks.append(Check(self.columns.optional["hash_ids"], HASH_IDS_RULE, kept))
        return counts, ids

    def _read_block_tokens(self, chunk: Chunk, checks: list[Check]) -> None:
        cells = self._optional(chunk, "block_tokens")
        if cells:
            tokens, _ = parse_tokens(cells)
            self.block_tokens = self.block_tokens or int(tokens[0])
            rule = "must be a whole number ≥ 1, the same in every row"
            checks.append(
                Check(self.columns.optional["block_tokens"], rule, (tokens == self.block_tokens) & (tokens > 0))
            )

    def _good_rows(self, chunk: Chunk, checks: Sequence[Check]) -> Bools:
        good: Bools = np.logical_and.reduce([check.kept for check in checks])
        if good.all() or self.skip_bad_rows:
            return good
        row = int(np.argmin(good))
        if row in chunk.broken:
            raise InputError(chunk.broken[row], source=self.source, field=f"line {chunk.lines[row]}")
        first = next(check for check in checks if not check.kept[row])
        raise self._error(chunk, row, first.column, first.rule)

    def _of_model(self, chunk: Chunk) -> Bools:
        cells = self._optional(chunk, "model")
        if self.model is None or cells is None:
            return np.ones(len(chunk.lines), dtype=np.bool_)
        self.models |= {str(cell) for cell in set(cells) if cell is not None}
        return np.array([cell == self.model for cell in cells], dtype=np.bool_)

    def _count_totals(self, chunk: Chunk, sums: NDArray[np.int64], wanted: Bools) -> None:
        cells = self._optional(chunk, "total_tokens")
        if cells is not None:
            totals, readable = parse_tokens(cells)
            self.odd_totals += int(np.count_nonzero(wanted & ~(readable & (totals == sums))))

    def _skip(self, reason: str, rows: Bools) -> None:
        if count := int(np.count_nonzero(rows)):
            self.skipped[reason] += count

    def _session_numbers(self, chunk: Chunk) -> NDArray[np.int64]:
        cells = self._optional(chunk, "session_id")
        if cells is None:
            return np.full(len(chunk.lines), NO_SESSION, dtype=np.int64)
        known = self._sessions
        names = ("" if cell is None else str(cell).strip() for cell in cells)
        numbers = [known.setdefault(name, len(known)) if name else NO_SESSION for name in names]
        return np.array(numbers, dtype=np.int64)


def unit_of(columns: Columns, chunk: Chunk, override: str | None, source: str) -> str:
    """Tell the unit of the arrival times: as overridden, else ``DATE`` where they look so, else what the names tell.

    Raises:
        InputError: nothing tells it.
    """
    if override is not None or columns.time is None or not chunk.lines:
        return override or "s"
    unit = DATE if is_date(chunk.columns[columns.time][0]) else columns.time_unit
    if unit is None:
        rule = "the name does not tell the unit of the times, so it must be given"
        raise InputError(rule, source=source, field=columns.time, legal=tuple(TICKS_PER_S))
    return unit
