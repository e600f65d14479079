"""One strategy under the loupe: is it legal, does it fit, what does it reach, where does the time go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from lts_bench.assess_pools import PoolAssessment, assess_pools
from lts_bench.assessment import Assessment, violations_of
from lts_bench.cost import evaluator
from lts_bench.cost.breakdown import time_rows
from lts_bench.cost.model import cost_of
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.cost.utilisation import utilisation
from lts_bench.space.check import Checked
from lts_bench.space.disaggregated import POOLS, CheckedPools, Disaggregated, check_any, legal_any
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.model import Model
from lts_bench.specs.perturbation import draws
from lts_bench.specs.quantization import apply_precision
from lts_bench.specs.workload import Workload, parse_workload

UNCERTAIN = ("goodput_per_npu", "throughput_tokens_per_s", "ttft_ms", "tpot_ms", "batch")
"""Figures of which an interval is told."""
QUANTILES = {"median": 0.5, "p5": 0.05, "p95": 0.95}


def assess(
    model: Model, cluster: Cluster, engine: Engine, workload: Workload, strategy: Strategy | Disaggregated
) -> Assessment:
    """Evaluate one strategy, whether or not it is in a task's space."""
    if isinstance(strategy, Disaggregated):
        return assess_pools(model, cluster, engine, workload, strategy)
    phases = Phases.of(workload, engine)
    setting = Setting(model, cluster, engine, phases, strategy.redundant_experts, strategy.padding)
    cost, vector = cost_of(setting, strategy)
    raw = cost.raw(vector[None])[0]
    return Assessment(setting, strategy, raw, cost.memory_parts(vector, float(raw[evaluator.BATCH])))


def drawn(setting: Setting, strategy: Strategy | Disaggregated, count: int, seed: int) -> Iterator[Assessment]:
    """A strategy on ``count`` draws of the constants, the same ones for every strategy."""
    for cluster, engine in draws(setting.cluster, setting.engine, count, seed):
        yield assess(setting.model, cluster, engine, setting.phases.workload, strategy)


def spread(setting: Setting, strategy: Strategy | Disaggregated, count: int, seed: int = 0) -> dict[str, Any]:
    """Share of draws in which a strategy is feasible; median, 5 % and 95 % quantile of what it reaches over all draws.

    Each draw has its own best batch. An infeasible one has goodput 0, one that does not fit no other figure.
    """
    found = list(drawn(setting, strategy, count, seed))
    document: dict[str, Any] = {"draws": count, "feasible_share": sum(each.feasible for each in found) / count}
    for name in UNCERTAIN:
        values = [each.figures[name] for each in found if each.figures[name] is not None]
        at = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf").tolist() if values else None
        document[name] = dict(zip(QUANTILES, at, strict=True)) if at else dict.fromkeys(QUANTILES)
    return document


def ranking_under_uncertainty(
    setting: Setting, strategies: Sequence[Strategy], count: int, seed: int = 0
) -> list[float]:
    """Share of draws in which each strategy has the highest goodput; equal ones share a draw.

    Draws in which none is feasible are won by none, so that the shares may add up to less than 1.
    """
    found = [list(drawn(setting, strategy, count, seed)) for strategy in strategies]
    goodput = np.array([[each.raw[evaluator.GOODPUT] for each in of_one] for of_one in found])
    best = (goodput == goodput.max(axis=0)) & (goodput > 0)
    shares: list[float] = (best / np.maximum(best.sum(axis=0), 1)).mean(axis=1).tolist()
    return shares


def check_document(
    model: Model, cluster: Cluster, document: Any, workload: Workload | None = None, source: str | None = None
) -> dict[str, Any]:
    """``lts-bench check``: legality, and with a workload also MEMORY and SLO violations; ``source`` names the file."""
    checked = check_any(document, model, cluster, source)
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
    uncertainty: int = 0,
    source: str = "strategy",
) -> dict[str, Any]:
    """``lts-bench evaluate``: what a strategy reaches; ``source`` names the strategy's file.

    With ``uncertainty`` also how that spreads over so many draws of the constants.

    Raises:
        InputError: if the strategy is not legal; the line names every broken rule.
    """
    loaded = apply_precision(load_model(model), precision, kv_precision)
    given = load_cluster(cluster)
    checked = legal_any(strategy, loaded, given, source)
    assessment = assess(loaded, given, load_engine(engine), parse_workload(workload), checked.strategy)
    document = assessment_document(assessment, checked)
    if uncertainty:
        document["uncertainty"] = spread(assessment.setting, assessment.strategy, uncertainty)
    return document


def assessment_document(assessment: Assessment, checked: Checked | CheckedPools) -> dict[str, Any]:
    """What a strategy reaches, holds and spends its time on, as plain data."""
    setting = assessment.setting
    document = {
        "feasible": assessment.feasible,
        **assessment.figures,
        "mfu": None,
        **_of_pools(assessment),
        "memory_bytes": assessment.memory,
        "violation": assessment.violation,
        "violations": [msgspec.to_builtins(each) for each in violations_of(assessment)],
        "warnings": [*checked.warnings, *setting.model.warnings, *setting.cluster.warnings],
        "strategy": assessment.strategy.to_json(),
    }
    return document | (_at_its_batch(assessment) if assessment.fits else {})


def _of_pools(assessment: Assessment) -> dict[str, Any]:
    """What is told of disaggregated serving alone."""
    if not isinstance(assessment, PoolAssessment):
        return {}
    return {
        "requests_per_s": assessment.rate,
        "pools": assessment.pools,
        "ttft_parts_ms": assessment.ttft_parts_ms,
    }


def _at_its_batch(assessment: Assessment) -> dict[str, Any]:
    """Utilisation, and the time of each operator and collective, at the strategy's own batch size."""
    strategy = assessment.strategy
    if isinstance(strategy, Strategy):
        return _where_time_goes(assessment, strategy)
    parts = {pool: _where_time_goes(assessment, getattr(strategy, pool)) for pool in POOLS}
    document: dict[str, Any] = {"mfu": {pool: parts[pool]["mfu"][pool] for pool in POOLS}}
    for kind in ("operators", "collectives"):
        rows = [{"pool": pool, **row} for pool in POOLS for row in parts[pool][kind]]
        unused = {"prefill": "decode_us", "decode": "prefill_us"}
        document[kind] = [row | {unused[row["pool"]]: 0.0} for row in rows]
    return document


def _where_time_goes(assessment: Assessment, strategy: Strategy) -> dict[str, Any]:
    phases = Phases(assessment.setting.phases.workload, np.array([int(assessment.raw[evaluator.BATCH])]))
    setting = replace(assessment.setting, phases=phases, redundant_experts=strategy.redundant_experts)
    cost, vector = cost_of(replace(setting, padding=strategy.padding), strategy)
    operators, collectives = time_rows(cost.tables, strategy)
    return {"mfu": utilisation(cost, vector), "operators": operators, "collectives": collectives}
