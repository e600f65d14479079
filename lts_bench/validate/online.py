"""Measured runs under an offered rate of requests, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lts_bench.serving.generate import generate, poisson
from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replicas, replay
from lts_bench.serving.step_tables import Served, build_step_times
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_lengths import Fixed, Independent
from lts_bench.validate.performance import load_kind, row_deployment
from lts_bench.validate.table import Prediction, Row, SkipError, number, predict_each

COLUMNS = ("ttft_ms", "tpot_ms")
REQUESTS = 500
"""Requests of a run, as in TensorRT-LLM's sweeps."""
AT_ONCE_QPS = 1e9
"""Stands for requests that all arrive at once."""
SEED = 0


def predict_online(rows: Sequence[Row], models: Path) -> list[Prediction]:
    """Mean TTFT and TPOT of each row; a deployment's step times are tabulated once for the rates of its sweep."""
    known: dict[tuple[tuple[str, str], ...], tuple[Served, Replicas]] = {}

    def predict(row: Row) -> Prediction:
        if load_kind(row) != "online":
            raise SkipError(f"not under an offered rate: a {load_kind(row)} run")
        key = tuple((name, row.get(name, "")) for name in DEPLOYMENT)
        if key not in known:
            known[key] = _replica(row, models)
        served, replica = known[key]
        return _predicted(served, replica, number(row, "request_rate_qps"))

    return predict_each(rows, predict)


DEPLOYMENT = ("model", "accelerator", "tp", "pp", "ep", "dp", "precision", "isl", "osl", "software")
"""Columns that tell rows of one deployment."""


def _replica(row: Row, models: Path) -> tuple[Served, Replicas]:
    at = row_deployment(row, models)
    served = Served(at.model, at.cluster, at.engine, at.workload, at.strategy)
    policy = Policy.of(at.engine, served.kv_tokens())
    longest = max(at.workload.isl + at.workload.osl, policy.step_tokens)
    times = build_step_times(served, rows=min(policy.rows, REQUESTS), longest=longest)
    return served, Replicas(times, policy, pp=at.strategy.degrees.pp, dp=at.strategy.degrees.dp)


def _predicted(served: Served, replica: Replicas, qps: float) -> Prediction:
    """What a request costs outside the model is part of its TTFT."""
    workload, engine = served.workload, served.engine
    found = replay(_trace(workload.isl, workload.osl, qps), replica)
    if found.rejected.any():
        raise SkipError(f"{workload.isl} + {workload.osl} tokens do not fit the KV cache")
    ttft_s = float(found.ttft_s.mean()) + engine.request_seconds(workload.isl)
    values = {"ttft_ms": ttft_s * 1e3, "tpot_ms": float(found.tpot_s.mean()) * 1e3}
    return Prediction(values, (served.model.name, served.cluster.name, f"{workload.isl}/{workload.osl}"))


def _trace(isl: int, osl: int, qps: float) -> Trace:
    lengths = Independent(Fixed(isl), Fixed(osl))
    trace = generate(poisson(min(qps, AT_ONCE_QPS)), lengths, REQUESTS, SEED)
    if qps < AT_ONCE_QPS:
        return trace
    return Trace(np.zeros(REQUESTS), trace.prompt_tokens, trace.output_tokens)
