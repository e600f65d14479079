"""Rows of published performance tables: which deployment they measured, and under which load."""

from __future__ import annotations

from pathlib import Path

from lts_bench.specs.workload import Workload
from lts_bench.validate.deployment import Deployment, megatron
from lts_bench.validate.measured import count, measured_cluster, measured_engine, measured_model
from lts_bench.validate.table import Row, SkipError

KV_FRACTION = 0.9
"""Share of what weights and buffers leave that the KV cache takes, the default of TensorRT-LLM's benchmarks."""
FASTER_TRANSFORMER_VOCABULARY = 51_200
"""Rows of the embedding in FasterTransformer's benchmarks."""


def load_kind(row: Row) -> str:
    """``online``, ``static`` or ``throughput``: under an offered rate, one batch at a time, or saturated."""
    for column, kind in (("request_rate_qps", "online"), ("batch", "static")):
        if row.get(column, "").strip():
            return kind
    return "throughput"


def row_deployment(row: Row, models: Path, prompts: int = 1) -> Deployment:
    """The deployment of a row of model, accelerator, tp, pp, ep, dp, precision, isl, osl and software.

    TensorRT-LLM's FP8 tables keep the KV cache in fp8, too.

    Raises:
        SkipError: if it cannot be told or does not run.
    """
    engine = measured_engine(row.get("software", ""))
    precision = row.get("precision", "").strip()
    kv = "fp8" if precision.lower() == "fp8" and engine.name.startswith("trtllm") else "config"
    model = measured_model(row.get("model", "").strip(), precision, models, kv)
    if engine.name == "fastertransformer":
        model = model.with_vocabulary(FASTER_TRANSFORMER_VOCABULARY)
    tp, pp, dp = count(row, "tp"), count(row, "pp", 1), count(row, "dp", 1)
    degrees = {"tp": tp, "pp": pp, "dp": dp}
    if model.is_moe:
        ep = count(row, "ep", 1)
        if tp * dp % ep:
            raise SkipError(f"ep {ep} does not divide tp · dp = {tp * dp}")
        degrees |= {"ep": ep, "etp": tp * dp // ep}
    cluster = measured_cluster(row.get("accelerator", ""), tp * pp * dp)
    workload = Workload(count(row, "isl"), count(row, "osl"), free_memory_fraction=KV_FRACTION)
    return Deployment(model, cluster, engine, workload, megatron(model, cluster, degrees), prompts)


def replicas(row: Row, deployment: Deployment) -> int:
    """Replicas on the row's accelerators, whole ones."""
    return max(count(row, "n_acc", deployment.cluster.devices) // deployment.cluster.devices, 1)
