"""What a replay is worth: percentiles of latencies, attainment of the SLOs, load over time, cost and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.replay import Replayed
from lts_bench.specs.workload import Slo

FloatArray = NDArray[np.float64]
PERCENTILES = (50, 90, 95, 99)
BINS = 20
"""Parts of the replay's time whose load is told."""


def spread(values: FloatArray) -> dict[str, float] | None:
    """Mean and percentiles, linear between ranks, of the values that are there; None where there are none."""
    found = values[~np.isnan(values)]
    if not len(found):
        return None
    percentiles = np.percentile(found, PERCENTILES)
    return {"mean": float(found.mean()), **{f"p{q}": float(v) for q, v in zip(PERCENTILES, percentiles, strict=True)}}


def met(replayed: Replayed, slo: Slo) -> NDArray[np.bool_]:
    """(n,) whether a request meets all limits, a limit included; no rejected one does, one token has no TPOT."""
    good = ~replayed.rejected
    if slo.ttft_ms is not None:
        good &= replayed.ttft_s * 1e3 <= slo.ttft_ms
    if slo.tpot_ms is not None:
        good &= ~(replayed.tpot_s * 1e3 > slo.tpot_ms)
    return good


def attainment(replayed: Replayed, slo: Slo) -> float:
    """Requests that meet all SLOs ÷ all requests."""
    return float(met(replayed, slo).mean())


def load_over_time(replayed: Replayed) -> dict[str, list[float]]:
    """Mean load in ``BINS`` equal parts of the time from the first arrival to the last token.

    Returns:
        ``end_s`` of each part, requests ``queued`` before their first admission, requests in ``service``, and
        ``utilisation``, the share of the time in which a replica works, added up over replicas.
    """
    if replayed.rejected.all():
        return {"end_s": [], "queued": [], "service": [], "utilisation": []}
    edges = np.linspace(0.0, float(np.nanmax(replayed.finish_s)), BINS + 1)
    done = ~replayed.rejected
    arrival, admitted, finish = (
        each[done] for each in (replayed.trace.arrival_s, replayed.admitted_s, replayed.finish_s)
    )
    return {
        "end_s": edges[1:].tolist(),
        "queued": _mean_inside(arrival, admitted, edges),
        "service": _mean_inside(admitted, finish, edges),
        "utilisation": _mean_inside(replayed.busy_s[:, 0], replayed.busy_s[:, 1], edges),
    }


def _mean_inside(begin: FloatArray, end: FloatArray, edges: FloatArray) -> list[float]:
    """How many intervals hold in the mean of each part of the time."""
    before = [np.minimum(end, edge).sum() - np.minimum(begin, edge).sum() for edge in edges]
    means: list[float] = (np.diff(before) / np.diff(edges)).tolist()
    return means


@dataclass(frozen=True)
class Tariff:
    """What devices cost.

    Attributes:
        devices: of all replicas.
        price_per_hour: of one device.
        power_w: of one device.
    """

    devices: int
    price_per_hour: float | None = None
    power_w: float | None = None


def expenses(replayed: Replayed, tariff: Tariff) -> dict[str, float | None]:
    """Cost and energy of the time from the first arrival to the last token; None where not given, or nothing ran."""
    done = ~replayed.rejected
    output = int(replayed.trace.output_tokens[done].sum())
    total = output + int(replayed.trace.prompt_tokens[done].sum())
    device_s = tariff.devices * float(np.nanmax(replayed.finish_s)) if output else 0.0
    cost = None if tariff.price_per_hour is None or not output else device_s / 3600 * tariff.price_per_hour
    energy = None if tariff.power_w is None or not output else device_s * tariff.power_w
    return {
        "cost_per_million_output": None if cost is None else cost / output * 1e6,
        "cost_per_million_total": None if cost is None else cost / total * 1e6,
        "joule_per_output_token": None if energy is None else energy / output,
        "joule_per_token": None if energy is None else energy / total,
    }


def summary(replayed: Replayed, slo: Slo) -> dict[str, Any]:
    """The figures of one replay; latencies in ms, rates per second of the time from first arrival to last token."""
    good, done = met(replayed, slo), ~replayed.rejected
    lasted = float(np.nanmax(replayed.finish_s)) if done.any() else 0.0
    output = int(replayed.trace.output_tokens[done].sum())
    return {
        "requests": len(replayed.trace),
        "rejected": int(replayed.rejected.sum()),
        "attainment": float(good.mean()),
        "ttft_ms": spread(replayed.ttft_s * 1e3),
        "tpot_ms": spread(replayed.tpot_s * 1e3),
        "latency_ms": spread(replayed.latency_s * 1e3),
        "offered_requests_per_s": replayed.trace.requests_per_s,
        "duration_s": lasted,
        "output_tokens_per_s": output / lasted if lasted else None,
        "good_requests_per_s": int(good.sum()) / lasted if lasted else None,
        "preemptions": int(replayed.preempted.sum()),
        "reused_prompt_share": float(replayed.reused_tokens.sum() / replayed.trace.prompt_tokens.sum()),
        "peak_kv_blocks": replayed.peak_kv_blocks,
    }
