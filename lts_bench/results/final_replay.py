"""Replays the final strategy of a cell, request by request, at the load that its task offers.

The load is that of the reference on serving: Poisson arrivals at a share of the rate that the closed form predicts.
Replicas of one pool are alike, and a router that serves them in turn makes them independent, so that one of them stands
for all: it is replayed with the arrivals that it would get. Two pools are replayed as a whole, as their link is shared.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from lts_bench.results.schema import Best, Replay
from lts_bench.serving.metrics import attainment
from lts_bench.serving.offered import poisson_trace, predicted_rate, served_in
from lts_bench.serving.pool_replay import Pools
from lts_bench.serving.rate_search import highest_scale
from lts_bench.serving.replay_document import Options, replayed, replicas_of
from lts_bench.serving.step_tables import Served

if TYPE_CHECKING:
    from lts_bench.task import Task

LOAD = 0.9
"""Offered ÷ predicted rate."""
FEWEST, MOST, TURNS = 1_000, 10_000, 8
"""Requests of a replay: so many times those that are served at once, within bounds."""

_known: dict[bytes, Replay] = {}


def final_replay(task: Task, best: Best) -> Replay | None:
    """Replay a strategy on a task's machine, once a process; deterministic.

    Args:
        task: on the machine of the cell's instance.
        best: the strategy, and the goodput, TTFT and TPOT that the closed form predicts.

    Returns:
        None where the task has no limits to attain.

    Raises:
        InputError: the strategy is not legal.
    """
    slo = task.workload.slo
    if slo.ttft_ms is None and slo.tpot_ms is None:
        return None
    # The digest of a task does not tell its instances apart.
    known = msgspec.json.encode([task.digest, task.cluster, task.engine, best], order="sorted")
    key = hashlib.sha256(known).digest()
    if key not in _known:
        _known[key] = _replay(task, best)
    return _known[key]


def _replay(task: Task, best: Best) -> Replay:
    workload = task.workload
    served, offered = served_in(task, best.strategy), LOAD * predicted_rate(task, best.goodput_per_npu)
    turns = served.strategy.degrees.replicas if isinstance(served, Served) else 1
    at_once = offered / turns * (best.ttft_s + workload.osl * best.tpot_s)
    trace = poisson_trace(workload, offered, int(np.clip(TURNS * at_once, FEWEST, MOST)), turns)
    replicas = replicas_of(served, trace, Options())
    measured = replicas if isinstance(replicas, Pools) else replace(replicas, count=1)

    def attained(scale: float) -> float:
        return attainment(replayed(trace.scaled(scale), measured), workload.slo)

    sustained = highest_scale(lambda scale: attained(scale) >= workload.slo.percentile / 100)
    goodput = sustained.scale * LOAD * best.goodput_per_npu
    return Replay(
        offered_requests_per_s=offered,
        attainment=attained(1.0),
        goodput_per_npu=goodput if sustained.bounded else None,
    )
