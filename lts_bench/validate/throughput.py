"""Measured maximum throughput: the steady state of as many sequences as the KV cache holds."""

from __future__ import annotations

from pathlib import Path

from lts_bench.cost.steady import tpot_seconds
from lts_bench.validate.performance import load_kind, replicas, row_deployment
from lts_bench.validate.table import Prediction, Row, SkipError

COLUMNS = ("out_tok_s",)


def predict_row(row: Row, models: Path) -> Prediction:
    """Output tokens per second of all accelerators.

    Raises:
        SkipError: if the row is of another kind or cannot be predicted.
    """
    if load_kind(row) != "throughput":
        raise SkipError(f"not a maximum throughput: a {load_kind(row)} run")
    deployment = row_deployment(row, models)
    degrees, batch = deployment.strategy.degrees, deployment.largest_batch
    at, sequences = deployment.at(batch), batch * degrees.dp * degrees.pp
    rate = replicas(row, deployment) * sequences / tpot_seconds(degrees.pp, at, at.decode)
    return Prediction({"out_tok_s": rate}, (deployment.model.name, row.get("precision", "")))
