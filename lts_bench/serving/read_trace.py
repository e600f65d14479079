"""Reads traces of requests from files of many origins."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.trace import NO_SESSION, PrefixBlocks, Trace, left_out
from lts_bench.serving.trace_chunk import ChunkReader, Requests, unit_of
from lts_bench.serving.trace_formats import TICKS_PER_S, Columns, find_columns, missing_times
from lts_bench.serving.trace_rows import Chunk, read_chunks
from lts_bench.specs.failure import InputError

MOST_REQUESTS_PER_S = 1e5
"""Assumed: no deployment gets more, so a trace with more has another time unit."""
FEW_REQUESTS = 100
"""Assumed: so many may well arrive within a second."""


def read_trace(
    path: str | Path,
    *,
    time_unit: str | None = None,
    model: str | None = None,
    block_tokens: int | None = None,
    skip_bad_rows: bool = False,
    needs_arrivals: bool = True,
) -> Trace:
    """Read a trace: CSV with a header, JSON Lines, or a JSON list of objects, told apart by what the file holds.

    The names of the columns tell the format, one of ``trace_formats.FORMATS``. Requests without prompt or output tokens
    are left out and counted. Rows need not be sorted.

    Args:
        path: the file, UTF-8.
        time_unit: s, ms, us or ns, where names and format tell another one or none.
        model: keep only requests of this model, as its column says.
        block_tokens: tokens of a block with one hash id, where it is not the format's.
        skip_bad_rows: leave out rows that cannot be read and count them.
        needs_arrivals: refuse a file without arrival times; else its requests all arrive at 0, with a warning.

    Raises:
        InputError: in one line the file, the line, the column, its value and the rule; or no request is left.
    """
    source = str(path)
    _check_options(time_unit, block_tokens)
    chunks = read_chunks(Path(path))
    first = next(chunks)
    columns = _columns(first, source)
    if columns.time is None and needs_arrivals:
        raise missing_times(first.names, source)
    if model is not None and "model" not in columns.optional:
        raise InputError("has no column 'model' to select by", source=source, field="model", value=model)
    reader = ChunkReader(source, columns, unit_of(columns, first, time_unit, source), model, skip_bad_rows)
    requests = _joined(reader.read(chunk) for chunk in chain([first], chunks))
    if not len(requests.ticks):
        raise _nothing_left(reader)
    return _trace(requests, reader, block_tokens)


def _check_options(time_unit: str | None, block_tokens: int | None) -> None:
    if time_unit is not None and time_unit not in TICKS_PER_S:
        raise InputError("not a unit of time", field="time_unit", value=time_unit, legal=tuple(TICKS_PER_S))
    if block_tokens is not None and block_tokens < 1:
        raise InputError("must be ≥ 1", field="block_tokens", value=block_tokens)


def _columns(first: Chunk, source: str) -> Columns:
    """What the columns mean; a JSON file without any names has no requests, or only bad rows."""
    if not first.names and first.broken:
        row = min(first.broken)
        raise InputError(first.broken[row], source=source, field=f"line {first.lines[row]}")
    if not first.names and not first.lines:
        raise InputError("has no requests", source=source)
    return find_columns(first.names, source)


def _joined(parts: Iterable[Requests]) -> Requests:
    return Requests(*map(np.concatenate, zip(*parts, strict=True)))


def _nothing_left(reader: ChunkReader) -> InputError:
    if reader.model is not None and reader.model not in reader.models:
        rule, models = "no request is of this model", sorted(reader.models)
        return InputError(rule, source=reader.source, field="model", value=reader.model, legal=models)
    return InputError(f"has no requests{left_out(reader.skipped)}", source=reader.source)


def _trace(requests: Requests, reader: ChunkReader, block_tokens: int | None) -> Trace:
    order = np.argsort(requests.ticks, kind="stable")
    ticks = requests.ticks[order]
    arrival_s = (ticks - ticks[0]) / reader.ticks_per_s
    block_tokens = block_tokens or reader.block_tokens or reader.columns.format.block_tokens
    blocks, surplus = _blocks(requests, block_tokens)
    counted = (
        (int(np.count_nonzero(np.diff(requests.ticks) < 0)), "arrive before the request above them: sorted by arrival"),
        (reader.odd_totals, "have a total that is not prompt + output tokens"),
        (surplus, f"have more hash ids than blocks of {block_tokens} tokens: the surplus is ignored"),
    )
    return Trace(
        arrival_s=arrival_s,
        prompt_tokens=requests.prompt_tokens[order],
        output_tokens=requests.output_tokens[order],
        blocks=blocks and blocks.take(order),
        sessions=requests.sessions[order] if (requests.sessions != NO_SESSION).any() else None,
        skipped=dict(sorted(reader.skipped.items())),
        warnings=(*(f"{count} rows {what}" for count, what in counted if count), *_implausible(arrival_s, reader)),
    )


def _blocks(requests: Requests, block_tokens: int) -> tuple[PrefixBlocks | None, int]:
    """The blocks of the prompts, no more than each has, and the number of requests with ids for more."""
    if not len(requests.ids):
        return None, 0
    most = -(-requests.prompt_tokens // block_tokens)
    offsets = np.concatenate([[0], np.cumsum(requests.id_counts)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], requests.id_counts)
    _, ids = np.unique(requests.ids, return_inverse=True)
    kept = np.concatenate([[0], np.cumsum(np.minimum(requests.id_counts, most))])
    shared = ids[within < np.repeat(most, requests.id_counts)].astype(np.int64)
    return PrefixBlocks(kept, shared, block_tokens), int(np.count_nonzero(requests.id_counts > most))


def _implausible(arrival_s: NDArray[np.float64], reader: ChunkReader) -> tuple[str, ...]:
    n, duration_s = len(arrival_s), float(arrival_s[-1])
    if reader.columns.time is None:
        return (f"no column of arrival times: all {n} requests arrive at once",)
    if (duration_s < 1 and n > FEW_REQUESTS) or n > MOST_REQUESTS_PER_S * duration_s > 0:
        unit = f"is {reader.columns.time} in {reader.time_unit}?"
        return (f"{n} requests within {duration_s:g} s are implausibly many: {unit}",)
    return ()
