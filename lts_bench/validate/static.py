"""Measured static batches: all prompts are prefilled in one step, then every sequence gets its tokens in step."""

from __future__ import annotations

from pathlib import Path

from lts_bench.validate.measured import count
from lts_bench.validate.performance import load_kind, replicas, row_deployment
from lts_bench.validate.table import Prediction, Row, SkipError

COLUMNS = ("latency_s", "ttft_ms", "out_tok_s")


def predict_row(row: Row, models: Path) -> Prediction:
    """Latency of the whole batch, time to its first tokens, and output tokens per second of all accelerators.

    Raises:
        SkipError: if the row is of another kind or cannot be predicted.
    """
    if load_kind(row) != "static":
        raise SkipError(f"not a static batch: a {load_kind(row)} run")
    batch = count(row, "batch")
    deployment = row_deployment(row, models, prompts=batch)
    prefill, osl = deployment.prompt_seconds(batch), deployment.workload.osl
    latency = prefill + (osl - 1) * deployment.at(batch).decode
    values = {
        "latency_s": latency,
        "ttft_ms": prefill * 1e3,
        "out_tok_s": replicas(row, deployment) * batch * osl / latency,
    }
    return Prediction(values, (deployment.model.name, row.get("precision", "")))
