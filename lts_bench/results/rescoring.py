"""Scores stored strategies again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lts_bench.results.schema import Best
from lts_bench.space.disaggregated import legal_any

if TYPE_CHECKING:
    from lts_bench.task import Task

TOLERANCE = 1e-9
"""Relative difference of numbers that are the same."""


def same(stored: float, found: float) -> bool:
    """Return whether two numbers agree; near 0 the difference itself counts."""
    return math.isclose(stored, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def best_of(task: Task, vector: np.ndarray) -> Best:
    """Return a strategy, given as a vector, with what it answers."""
    answer: Any = task.evaluate(vector[np.newaxis])[0]
    return Best(
        strategy=task.space.decode(vector).to_json(),
        goodput_per_npu=float(answer["goodput_per_npu"]),
        ttft_s=float(answer["ttft_s"]),
        tpot_s=float(answer["tpot_s"]),
        memory_bytes=float(answer["memory_bytes"]),
        slo_met=bool(answer["feasible"]),
        slo_margin=_slo_margin(task, float(answer["ttft_s"]), float(answer["tpot_s"])),
    )


def _slo_margin(task: Task, ttft_s: float, tpot_s: float) -> float | None:
    slo = task.workload.slo
    limits = ((slo.ttft_ms, ttft_s), (slo.tpot_ms, tpot_s))
    return min((1 - 1e3 * seconds / limit_ms for limit_ms, seconds in limits if limit_ms is not None), default=None)


def rescored(task: Task, strategy: Mapping[str, Any]) -> Best:
    """Score a stored strategy.

    Raises:
        InputError: it is not legal, or not in the task's space.
    """
    checked = legal_any(strategy, task.model, task.cluster)
    return best_of(task, task.space.encode(checked.strategy))
