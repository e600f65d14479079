"""What ``lts-bench model`` tells about a model."""

from __future__ import annotations

from typing import Any

from lts_bench.specs.formats import WeightFormat
from lts_bench.specs.model import Model


def _format(weight: WeightFormat) -> dict[str, Any]:
    return {
        "weights": weight.dtype,
        "activations": weight.activation,
        "block": list(weight.block) if weight.block else None,
    }


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def model_summary(model: Model) -> dict[str, Any]:
    """Parameter counts, cache and state bytes, layers by kind, precision and the reader's assumptions."""
    parameters = model.parameters
    return {
        "name": model.name,
        "parameters": {
            "total": parameters.total,
            "active": parameters.active,
            "embedding": parameters.embedding,
            "draft": model.draft_parameters,
        },
        "kv_bytes_per_token": _whole(model.kv_bytes_per_token),
        "state_bytes_per_sequence": _whole(model.state_bytes_per_sequence),
        "layers": model.kinds,
        "max_context": model.max_context,
        "precision": {
            **_format(model.precision.default),
            "exceptions": {group: weight.dtype for group, weight in model.precision.groups},
            "kv": model.precision.kv,
        },
        "warnings": list(model.warnings),
    }
