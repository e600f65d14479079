"""Answers about legality for the command line: a model's legal degrees, a strategy's violations."""

from __future__ import annotations

from typing import Any

from lts_bench.space.rules import OperatorRules, divisors, experts_of
from lts_bench.specs.model import Model


def legal_degrees(model: Model) -> dict[str, Any]:
    """Degrees at which Megatron's pattern is legal, cluster aside: ``tp``, ``pp_max``, ``ep``."""
    return {
        "tp": list(OperatorRules(model).megatron_tp()),
        "pp_max": len(model.layers),
        "ep": list(divisors(experts_of(model))),
    }
