"""One strategy under the loupe: is it legal, does it fit, what does it reach, where does the time go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from lts_bench.cost import evaluator
from lts_bench.cost.breakdown import time_rows
from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.cost.tables import Tables
from lts_bench.space.check import Checked, check_strategy
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.failure import Failure, InputError, Violation
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import apply_precision
from lts_bench.specs.workload import Workload, parse_workload

LIMITS = ("memory", "ttft", "tpot")


@dataclass(frozen=True)
class Assessment:
    """A legal strategy's evaluation.

    Attributes:
        raw: one row of ``evaluator``'s columns.
        memory: bytes of the fullest device: weights, kv, buffers, limit, kv_room (what weights and buffers leave) and
            kv_per_sequence (one sequence at full length).
    """

    setting: Setting
    strategy: Strategy
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


def assess(model: Model, cluster: Cluster, engine: Engine, workload: Workload, strategy: Strategy) -> Assessment:
    """Evaluate one strategy, whether or not it is in a task's space."""
    phases = Phases.of(workload, engine)
    setting = Setting(model, cluster, engine, phases, strategy.redundant_experts, strategy.padding)
    cost = CostModel(setting, [strategy.degrees], strategy.stages)
    choices = [each.index(strategy.sharding[each.key]) for each in cost.tables.rules.operators]
    vectors = np.array([[0, *choices]])
    raw = cost.raw(vectors)[0]
    return Assessment(setting, strategy, raw, cost.memory_parts(vectors[0], float(raw[evaluator.BATCH])))


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


def check_document(
    model: Model, cluster: Cluster, document: Any, workload: Workload | None = None, source: str | None = None
) -> dict[str, Any]:
    """``lts-bench check``: legality, and with a workload also MEMORY and SLO violations; ``source`` names the file."""
    checked = check_strategy(document, model, cluster, source)
    violations = list(checked.violations)
    if workload is not None and not violations:
        violations += violations_of(assess(model, cluster, load_engine("generic"), workload, checked.strategy))
    return {
        "legal": not checked.violations,
        "violations": [msgspec.to_builtins(each) for each in violations],
        "warnings": [*checked.warnings, *model.warnings, *cluster.warnings],
        "strategy": checked.strategy.to_json(),
    }


def evaluate_strategy(
    *,
    model: str,
    cluster: str,
    workload: str | Workload,
    strategy: Any,
    engine: str = "generic",
    precision: str = "config",
    kv_precision: str = "config",
    source: str = "strategy",
) -> dict[str, Any]:
    """``lts-bench evaluate``: what a strategy reaches; ``source`` names the strategy's file.

    Raises:
        InputError: if the strategy is not legal; the line names every broken rule.
    """
    loaded = apply_precision(load_model(model), precision, kv_precision)
    given = load_cluster(cluster)
    checked = check_strategy(strategy, loaded, given, source)
    if checked.violations:
        told = "; ".join(f"{each.failure}: {each.message}" for each in checked.violations)
        raise InputError(f"not legal: {told}", source=source)
    assessment = assess(loaded, given, load_engine(engine), parse_workload(workload), checked.strategy)
    return _document(assessment, checked)


def _document(assessment: Assessment, checked: Checked) -> dict[str, Any]:
    raw, degrees = assessment.raw, assessment.strategy.degrees
    setting = assessment.setting
    fits = assessment.violation["memory"] == 0
    batch = int(raw[evaluator.BATCH]) if fits else None
    concurrency = degrees.replicas * degrees.dp * degrees.pp * (batch or 0)
    throughput = concurrency / float(raw[evaluator.TPOT]) if fits else None
    document = {
        "feasible": assessment.feasible,
        "batch": batch,
        "concurrency": concurrency if fits else None,
        "throughput_tokens_per_s": throughput,
        "goodput_per_npu": float(raw[evaluator.GOODPUT]),
        "ttft_ms": float(raw[evaluator.TTFT]) * 1e3 if fits else None,
        "tpot_ms": float(raw[evaluator.TPOT]) * 1e3 if fits else None,
        "memory_bytes": assessment.memory,
        "violation": assessment.violation,
        "violations": [msgspec.to_builtins(each) for each in violations_of(assessment)],
        "warnings": [*checked.warnings, *setting.model.warnings, *setting.cluster.warnings],
        "strategy": assessment.strategy.to_json(),
    }
    if fits:
        document["operators"], document["collectives"] = _times(assessment, float(raw[evaluator.BATCH]))
    return document


def _times(assessment: Assessment, batch: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Time of each operator and collective at the strategy's own batch size."""
    setting = assessment.setting
    phases = Phases(setting.phases.workload, np.array([int(batch)]))
    at_batch = Setting(
        setting.model, setting.cluster, setting.engine, phases, setting.redundant_experts, setting.padding
    )
    tables = Tables(at_batch, [assessment.strategy.degrees], assessment.strategy.stages)
    return time_rows(tables, assessment.strategy)
