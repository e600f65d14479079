"""A task's spec: what a problem is made of, by names."""

from __future__ import annotations

from typing import Literal

import msgspec

from lts_bench.specs.loading import RuleError, Text
from lts_bench.specs.workload import Workload

WeightPrecision = Literal["config", "bf16", "fp8", "fp8_block", "int8", "int4", "fp4"]
KvPrecision = Literal["config", "bf16", "fp8", "int8", "fp4"]
Serving = Literal["co-located", "disaggregated"]


class TaskSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task of a suite.

    Attributes:
        name: begins with ``model/cluster/``.
        model: a built-in model or a path.
        cluster: a built-in cluster or a path.
        engine: a built-in engine profile or a path.
        precision: of weights and activations; ``config`` keeps what the model says.
        kv_precision: of the KV cache.
        feedback: graded answers, or goodput alone (flat).
        serving: replicas prefill and decode on the same devices, or pools of them for each.
        why: what the task is there for, one line.
    """

    name: Text
    model: Text
    cluster: Text
    workload: Workload
    engine: Text = "generic"
    precision: WeightPrecision = "config"
    kv_precision: KvPrecision = "config"
    feedback: Literal["graded", "flat"] = "graded"
    serving: Serving = "co-located"
    why: str = ""

    def __post_init__(self) -> None:
        start = f"{self.model}/{self.cluster}/"
        if not self.name.startswith(start) or self.name == start:
            raise RuleError(
                "must begin with the model and the cluster", field="name", value=self.name, legal=(f"{start}…",)
            )
