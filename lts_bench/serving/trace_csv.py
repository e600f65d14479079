"""Writes traces in the project's own format, which ``read_trace`` reads as it does the others."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from pathlib import Path

from lts_bench.results.store import write_output
from lts_bench.serving.trace import NO_SESSION, Trace


def write_trace(path: Path, trace: Trace) -> None:
    """Write ``arrival_s, prompt_tokens, output_tokens`` and, where known, ``session_id``, ``hash_ids, block_tokens``.

    Reading gives the same trace bit by bit, with ids of sessions and blocks numbered anew.

    Raises:
        InputError: the file cannot be written.
    """
    columns = {
        "arrival_s": trace.arrival_s.tolist(),
        "prompt_tokens": trace.prompt_tokens.tolist(),
        "output_tokens": trace.output_tokens.tolist(),
    }
    if trace.sessions is not None:
        columns["session_id"] = ["" if number == NO_SESSION else number for number in trace.sessions.tolist()]
    if trace.blocks is not None:
        ids, offsets = trace.blocks.ids.tolist(), trace.blocks.offsets.tolist()
        columns["hash_ids"] = [" ".join(map(str, ids[start:end])) for start, end in pairwise(offsets)]
        columns["block_tokens"] = [trace.blocks.block_tokens] * len(trace)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_output(path, text.getvalue())
