"""A task in numbers: what an engineer would know about model, cluster, workload and SLOs."""

from __future__ import annotations

from lts_bench.space.placement import domain_size
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.formats import DTYPE_BYTES
from lts_bench.specs.layers import MoeFfn
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload


def task_features(model: Model, cluster: Cluster, workload: Workload, engine: Engine) -> dict[str, float]:
    """Named features in SI units; a missing limit is 0."""
    return _model_features(model) | _cluster_features(cluster) | _workload_features(workload, engine)


def _model_features(model: Model) -> dict[str, float]:
    counts = model.parameters
    experts = [layer.ffn for layer in model.layers if isinstance(layer.ffn, MoeFfn)]
    return {
        "parameters": float(counts.total),
        "active_parameters": float(counts.active),
        "layers": float(len(model.layers)),
        "hidden": float(model.hidden),
        "vocab": float(model.vocab),
        "heads": float(max((layer.mixer.heads for layer in model.layers if layer.mixer), default=0)),
        "experts": float(max((ffn.experts for ffn in experts), default=0)),
        "top_k": float(max((ffn.top_k for ffn in experts), default=0)),
        "kv_bytes_per_token": model.kv_elements_per_token * DTYPE_BYTES[model.precision.kv],
        "weight_bytes": DTYPE_BYTES[model.precision.default.dtype],
    }


def _cluster_features(cluster: Cluster) -> dict[str, float]:
    chip, out = cluster.chip, cluster.scale_out
    return {
        "devices": float(cluster.devices),
        "domain_devices": float(domain_size(cluster)),
        "peak_bf16_flops_per_s": chip.peak_flops_per_s["bf16"],
        "hbm_bytes": chip.hbm_bytes_usable,
        "hbm_bytes_per_s": chip.hbm_bytes_per_s,
        "scale_up_bytes_per_s": cluster.scale_up.bytes_per_s,
        "scale_out_bytes_per_s": out.bytes_per_s if out else 0.0,
        "scale_out_oversubscription": out.oversubscription if out else 1.0,
        "torus": float(cluster.scale_up.kind == "torus"),
        "full_mesh": float(cluster.scale_up.kind == "full_mesh"),
    }


def _workload_features(workload: Workload, engine: Engine) -> dict[str, float]:
    return {
        "isl": float(workload.isl),
        "osl": float(workload.osl),
        "ttft_limit_s": (workload.slo.ttft_ms or 0.0) / 1e3,
        "tpot_limit_s": (workload.slo.tpot_ms or 0.0) / 1e3,
        "slo_percentile": workload.slo.percentile,
        "memory_fraction": workload.memory_fraction or engine.memory_fraction,
    }
