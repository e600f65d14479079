"""Latencies and attainment at rates around the highest one that attains the SLOs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lts_bench.serving.metrics import attainment, spread
from lts_bench.serving.pool_replay import ServedPools
from lts_bench.serving.replay_document import Options, replayed, replicas_of
from lts_bench.serving.step_tables import Served
from lts_bench.serving.trace import Trace
from lts_bench.specs.failure import InputError

SHARES = np.linspace(0.1, 1.3, 13)
"""Of the rate around which it is looked."""


def rate_sweep(served: Served | ServedPools, trace: Trace, options: Options, rate_scale: float) -> list[dict[str, Any]]:
    """Replay a trace at ``SHARES`` of ``rate_scale`` times its rate.

    Returns:
        ``requests_per_s``, ``ttft_ms`` and ``tpot_ms`` as in ``metrics.spread``, ``attainment``; ascending.

    Raises:
        InputError: the trace has no rate.
    """
    if trace.requests_per_s is None:
        raise InputError("needs a trace with a rate: all of its requests arrive at once", field="--plot")
    replicas, points = replicas_of(served, trace, options), []
    for scale in (SHARES * rate_scale).tolist():
        found = replayed(trace.scaled(scale), replicas)
        point = {
            "requests_per_s": scale * trace.requests_per_s,
            "ttft_ms": spread(found.ttft_s * 1e3),
            "tpot_ms": spread(found.tpot_s * 1e3),
            "attainment": attainment(found, served.workload.slo),
        }
        points.append(point)
    return points
