"""What one evaluation of a strategy tells: figures, memory, and which limits it breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lts_bench.cost import evaluator
from lts_bench.cost.nodes import Setting
from lts_bench.space.disaggregated import Disaggregated
from lts_bench.space.strategy import Strategy
from lts_bench.specs.failure import Failure, Violation

LIMITS = ("memory", "ttft", "tpot")
FIGURES = ("batch", "concurrency", "throughput_tokens_per_s", "goodput_per_npu", "ttft_ms", "tpot_ms")


@dataclass(frozen=True)
class Assessment:
    """A legal strategy's evaluation.

    Attributes:
        raw: one row of ``evaluator``'s columns.
        memory: bytes of the fullest device: weights, kv, buffers, limit, kv_room (what weights and buffers leave) and
            kv_per_sequence (one sequence at full length).
    """

    setting: Setting
    strategy: Strategy | Disaggregated
    raw: np.ndarray
    memory: dict[str, float]

    @property
    def feasible(self) -> bool:
        """Whether memory and SLOs are met."""
        return bool(self.raw[evaluator.FEASIBLE])

    @property
    def violation(self) -> dict[str, float]:
        """Relative excess over each limit."""
        over = self.raw[evaluator.OVER_MEMORY : evaluator.OVER_TPOT + 1]
        return dict(zip(LIMITS, map(float, over), strict=True))

    @property
    def fits(self) -> bool:
        """Whether the batch that is reported fits the memory."""
        return self.violation["memory"] == 0

    @property
    def figures(self) -> dict[str, Any]:
        """What is reached with the best batch, or the least violating one; None where not even that fits."""
        if not self.fits:
            return dict.fromkeys(FIGURES) | {"goodput_per_npu": 0.0}
        raw, batch = self.raw, int(self.raw[evaluator.BATCH])
        goodput, ttft, tpot = (float(raw[at]) for at in (evaluator.GOODPUT, evaluator.TTFT, evaluator.TPOT))
        concurrency, throughput = self._load(batch, tpot)
        reached = (batch, concurrency, throughput, goodput, 1e3 * ttft, 1e3 * tpot)
        return dict(zip(FIGURES, reached, strict=True))

    def _load(self, batch: int, tpot: float) -> tuple[float, float]:
        """(sequences that decode, tokens per second) of all replicas."""
        assert isinstance(self.strategy, Strategy)
        degrees = self.strategy.degrees
        concurrency = degrees.replicas * degrees.dp * degrees.pp * batch
        return concurrency, concurrency / tpot


def violations_of(assessment: Assessment) -> list[Violation]:
    """The MEMORY violation of a legal strategy, or its SLO violations: what does not fit has no latencies."""
    slo, raw = assessment.setting.phases.workload.slo, assessment.raw
    over = assessment.violation
    found: list[Violation] = []
    if over["memory"] > 0:
        return [_memory_violation(assessment)]
    for name, column, limit_ms in (("ttft", evaluator.TTFT, slo.ttft_ms), ("tpot", evaluator.TPOT, slo.tpot_ms)):
        if over[name] > 0:
            value = float(raw[column]) * 1e3
            message = f"{name.upper()} {value:.4g} ms exceeds the limit of {limit_ms:g} ms"
            rule = f"{name}_ms <= {limit_ms:g}"
            found.append(Violation(Failure.SLO, rule, f"slo.{name}_ms", value, (limit_ms,), message))
    return found


def _memory_violation(assessment: Assessment) -> Violation:
    memory, limit = assessment.memory, assessment.memory["limit"]
    needed = float(assessment.raw[evaluator.MEMORY])
    message = f"a device needs {needed / 1e9:.2f} GB and has {limit / 1e9:.2f} GB"
    message += f": weights {memory['weights'] / 1e9:.2f} GB"
    if memory["weights"] < limit:
        tokens, whole = assessment.setting.phases.full_context, memory["kv_per_sequence"] / 1e9
        message += f", one sequence of {tokens:,.0f} tokens {whole:.2f} GB"
        message += f"; at most {memory['longest_sequence_tokens']:,.0f} tokens fit beside the weights"
    return Violation(Failure.MEMORY, f"bytes of a device <= {limit:.0f}", "memory_bytes", needed, (limit,), message)
