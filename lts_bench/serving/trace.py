"""A trace: requests with their arrival times and lengths, and what is known about shared prefixes and sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lts_bench.specs.failure import InputError

NO_SESSION = -1
OVER_LONG = "over_long"
"""Reason in ``Trace.skipped``: prompt and answer exceed the model's context."""


@dataclass(frozen=True, eq=False)
class PrefixBlocks:
    """What prompts have in common: ids of their blocks, equal where the blocks and all before them are equal.

    Attributes:
        offsets: (n + 1,) request i has ``ids[offsets[i] : offsets[i + 1]]``; tokens beyond these are shared by none.
        ids: (blocks,) from 0, at most one for each started block of a prompt.
        block_tokens: tokens of a block.
    """

    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    block_tokens: int

    def __post_init__(self) -> None:
        if self.block_tokens < 1:
            raise InputError("must be ≥ 1", field="block_tokens", value=self.block_tokens)

    def take(self, requests: NDArray[np.int64]) -> PrefixBlocks:
        """Return the blocks of some requests, in the order of ``requests`` (indices)."""
        counts = np.diff(self.offsets)[requests]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        ids = self.ids[np.repeat(self.offsets[:-1][requests], counts) + within]
        return PrefixBlocks(offsets, ids, self.block_tokens)


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in the order of their arrival; those at the same time keep the order of the file.

    Attributes:
        arrival_s: (n,) seconds since the first request.
        prompt_tokens: (n,) at least 1.
        output_tokens: (n,) at least 1.
        blocks: None where the trace does not tell which prompts share a prefix.
        sessions: (n,) numbers of conversations, ``NO_SESSION`` where a request has none; None where nobody has.
        skipped: requests that were left out, by reason.
        warnings: what is odd about the source, a line each.
    """

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    blocks: PrefixBlocks | None = None
    sessions: NDArray[np.int64] | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.arrival_s)
        if not n:
            raise InputError(f"a trace must have at least one request{left_out(self.skipped)}")
        columns = (self.prompt_tokens, self.output_tokens, *([] if self.sessions is None else [self.sessions]))
        if any(len(column) != n for column in columns) or (self.blocks and len(self.blocks.offsets) != n + 1):
            raise ValueError("the columns of a trace must have the same length")
        if not np.isfinite(self.arrival_s).all() or self.arrival_s[0] != 0 or (np.diff(self.arrival_s) < 0).any():
            raise ValueError("arrival times must be finite, begin with 0 and never fall")
        if min(self.prompt_tokens.min(), self.output_tokens.min()) < 1:
            raise ValueError("prompts and outputs must have at least one token")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def duration_s(self) -> float:
        """From the first to the last arrival."""
        return float(self.arrival_s[-1])

    @property
    def requests_per_s(self) -> float | None:
        """Requests ÷ duration; None where all arrive at once."""
        return len(self) / self.duration_s if self.duration_s else None

    def window(self, start_s: float, end_s: float) -> Trace:
        """Return the requests with ``start_s`` ≤ arrival < ``end_s``; the first of them arrives at 0.

        Raises:
            InputError: not 0 ≤ start < end, or no request arrives then.
        """
        if not 0 <= start_s < end_s:
            raise InputError(
                "must be START:END in seconds with 0 ≤ START < END", field="window", value=(start_s, end_s)
            )
        first, end = np.searchsorted(self.arrival_s, [start_s, end_s])
        if first == end:
            rule = f"no request arrives then; the last one arrives at {self.duration_s:g} s"
            raise InputError(rule, field="window", value=(start_s, end_s))
        return self._take(np.arange(first, end))

    def scaled(self, rate_scale: float) -> Trace:
        """Return the trace at ``rate_scale`` times its rate: the times are divided by it.

        Raises:
            InputError: the scale is not a positive number.
        """
        if not (0 < rate_scale < math.inf and math.isfinite(self.duration_s / rate_scale)):
            raise InputError("must be a positive number", field="rate_scale", value=rate_scale)
        return replace(self, arrival_s=self.arrival_s / rate_scale)

    def within_context(self, context_tokens: int) -> Trace:
        """Return the trace without requests of more tokens, prompt and output, and count these as skipped.

        Raises:
            InputError: none is left.
        """
        fits = self.prompt_tokens + self.output_tokens <= context_tokens
        over = int(np.count_nonzero(~fits))
        if not over:
            return self
        skipped = {**self.skipped, OVER_LONG: self.skipped.get(OVER_LONG, 0) + over}
        if not fits.any():
            rule = f"no request has at most {context_tokens} tokens, prompt and output{left_out(skipped)}"
            raise InputError(rule, field="trace")
        return replace(self._take(np.flatnonzero(fits)), skipped=skipped)

    def _take(self, requests: NDArray[np.int64]) -> Trace:
        arrival_s = self.arrival_s[requests]
        return replace(
            self,
            arrival_s=arrival_s - arrival_s[0],
            prompt_tokens=self.prompt_tokens[requests],
            output_tokens=self.output_tokens[requests],
            blocks=self.blocks and self.blocks.take(requests),
            sessions=None if self.sessions is None else self.sessions[requests],
        )


def left_out(skipped: Mapping[str, int]) -> str:
    """Return ``; skipped: …`` for messages, or nothing."""
    return f"; skipped: {', '.join(f'{reason} {count}' for reason, count in skipped.items())}" if skipped else ""


def parse_window(text: str) -> tuple[float, float]:
    """Read ``START:END`` in seconds, either of which may be left out.

    Raises:
        InputError: it is something else.
    """
    start, colon, end = text.partition(":")
    try:
        window = float(start or 0), float(end or math.inf)
    except ValueError:
        colon = ""
    if not colon:
        raise InputError("must be START:END in seconds", field="window", value=text)
    return window
