"""A workload: lengths of prompts and answers, and the service-level objectives (SLOs)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lts_bench.specs.loading import Count, Positive, RuleError, Share, convert, parse_pairs, read_yaml

Percentile = Annotated[float, msgspec.Meta(gt=0, lt=100)]


class Slo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Service-level objectives; a limit left out does not bind, one that is met exactly is met.

    Attributes:
        ttft_ms: time to first token.
        tpot_ms: time per output token.
        percentile: of requests that must meet the limit on TTFT.
    """

    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None
    percentile: Percentile = 90.0


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is served.

    Attributes:
        isl: input sequence length in tokens.
        osl: output sequence length in tokens.
        memory_fraction: share of the usable memory to plan with; the engine's where left out.
        free_memory_fraction: the other way to plan: share of what weights and buffers leave that the KV cache may take.
    """

    isl: Count
    osl: Count
    slo: Slo = Slo()
    memory_fraction: Share | None = None
    free_memory_fraction: Share | None = None

    def __post_init__(self) -> None:
        if self.memory_fraction is not None and self.free_memory_fraction is not None:
            rule = "excludes memory_fraction: the one is a share of all memory, the other of what weights leave"
            raise RuleError(rule, field="free_memory_fraction", value=self.free_memory_fraction)


def parse_workload(ref: str | Path | Mapping[str, Any] | Workload) -> Workload:
    """Read a workload from a YAML or JSON file, from ``isl=1024,osl=1024,ttft_ms=2000,…`` or from a mapping."""
    if isinstance(ref, Workload):
        return convert(msgspec.to_builtins(ref), Workload, "workload")
    if isinstance(ref, Mapping):
        return convert(ref, Workload, "workload")
    if isinstance(ref, Path) or "=" not in ref or ref.endswith((".yaml", ".yml", ".json")):
        return convert(read_yaml(ref), Workload, str(ref))
    return convert(_from_pairs(ref), Workload, "workload")


def _from_pairs(text: str) -> dict[str, Any]:
    slo_keys, top_keys = Slo.__struct_fields__, tuple(key for key in Workload.__struct_fields__ if key != "slo")
    given = parse_pairs(text, (*top_keys, *slo_keys), "workload")
    slo = {key: given.pop(key) for key in slo_keys if key in given}
    return given | {"slo": slo}
