"""A trace in figures: how many requests, how fast, how bursty, how long, what they share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_prefix import prefix_hit_tokens

BIN_WIDTHS_S = (1, 10, 60)
NO_HASH_IDS = "the trace does not tell which prompts share a prefix: none is assumed"


def trace_document(trace: Trace) -> dict[str, Any]:
    """Describe a trace.

    Returns:
        ``requests``, ``duration_s``, ``requests_per_s`` (requests ÷ duration), ``peak_requests_per_s`` (in bins of
        1 s), ``interarrival_cv`` (standard deviation ÷ mean), ``bursts`` {width of a bin: {``peak_to_mean``,
        ``dispersion`` (variance ÷ mean of its requests)}}, ``prompt_tokens`` and ``output_tokens`` {``mean``, ``p50``,
        ``p90``, ``p99``, ``max``}, ``sessions``, ``prefix`` {``block_tokens``, ``hit_ratio`` (tokens found in a cache
        without limit ÷ tokens of the prompts)}, ``skipped`` {reason: rows}, ``notes``, ``warnings``. None where there
        is no figure, such as the rate of requests that all arrive at once.
    """
    hits = int(prefix_hit_tokens(trace).sum())
    return {
        "requests": len(trace),
        "duration_s": trace.duration_s,
        "requests_per_s": trace.requests_per_s,
        "peak_requests_per_s": int(_counts(trace.arrival_s, 1)[0].max()) if trace.duration_s else None,
        "interarrival_cv": _interarrival_cv(trace),
        "bursts": {f"{width}s": _bursts(trace, width) for width in BIN_WIDTHS_S} if trace.duration_s else None,
        "prompt_tokens": _lengths(trace.prompt_tokens),
        "output_tokens": _lengths(trace.output_tokens),
        "sessions": None if trace.sessions is None else len(np.unique(trace.sessions[trace.sessions >= 0])),
        "prefix": {
            "block_tokens": trace.blocks and trace.blocks.block_tokens,
            "hit_ratio": hits / int(trace.prompt_tokens.sum()),
        },
        "skipped": dict(trace.skipped),
        "notes": [NO_HASH_IDS] if trace.blocks is None else [],
        "warnings": list(trace.warnings),
    }


def _lengths(tokens: NDArray[np.int64]) -> dict[str, float]:
    p50, p90, p99 = np.percentile(tokens, [50, 90, 99]).tolist()
    return {"mean": float(tokens.mean()), "p50": p50, "p90": p90, "p99": p99, "max": int(tokens.max())}


def _interarrival_cv(trace: Trace) -> float | None:
    gaps_s = np.diff(trace.arrival_s)
    return float(gaps_s.std() / gaps_s.mean()) if trace.duration_s else None


def _counts(arrival_s: NDArray[np.float64], width_s: int) -> tuple[NDArray[np.int64], int]:
    """Requests in each bin that has any, and how many bins there are; the last may be cut short."""
    bins = math.ceil(arrival_s[-1] / width_s)
    # The last arrival may lie on the end of the last bin.
    _, counts = np.unique(np.minimum(arrival_s // width_s, bins - 1), return_counts=True)
    return counts, bins


def _bursts(trace: Trace, width_s: int) -> dict[str, float]:
    counts, bins = _counts(trace.arrival_s, width_s)
    mean = len(trace) / bins
    variance = float(np.square(counts - mean).sum() + (bins - len(counts)) * mean**2) / bins
    return {"peak_to_mean": float(counts.max() / mean), "dispersion": variance / mean}
