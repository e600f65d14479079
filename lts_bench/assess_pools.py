"""A strategy of two pools under the loupe: which of them sets the rate, and what TTFT is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lts_bench.assessment import Assessment
from lts_bench.cost.pool_answer import IN_FLIGHT
from lts_bench.cost.pool_formulas import highest_load, prefill_seconds, transfer_seconds
from lts_bench.cost.pool_model import PoolModel, cost_of_pools
from lts_bench.cost.program import IntArray
from lts_bench.space.disaggregated import POOLS, Disaggregated
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload


@dataclass(frozen=True)
class PoolAssessment(Assessment):
    """A legal strategy's evaluation.

    Attributes:
        rate: requests per second.
        pools: what is known of either pool: devices, requests per second, memory.
        ttft_parts_ms: what TTFT is made of.
    """

    rate: float
    pools: dict[str, dict[str, Any]]
    ttft_parts_ms: dict[str, float]

    def _load(self, batch: int, tpot: float) -> tuple[float, float]:
        throughput = self.rate * self.setting.phases.workload.osl
        return throughput * tpot, throughput


def assess_pools(
    model: Model, cluster: Cluster, engine: Engine, workload: Workload, strategy: Disaggregated
) -> PoolAssessment:
    """Evaluate one strategy of two pools, whether or not it is in a task's space."""
    cost, vector = cost_of_pools(model, cluster, engine, workload, strategy)
    answers, points = cost.points(vector[None])
    batch, rate = points[0].tolist()
    raw = np.array([*np.hstack([answers[name][0] for name in answers.dtype.names or ()]), batch, answers["tpot_s"][0]])
    pools = _pools(cost, vector, batch)
    held = [pool["memory_bytes"] for pool in pools.values()]
    fullest = max(held, key=lambda each: sum(each[name] for name in ("weights", "kv", "buffers")))
    parts = _ttft_parts_ms(cost, vector, rate, float(answers["tpot_s"][0]))
    return PoolAssessment(cost.settings[1], strategy, raw, fullest, rate, pools, parts)


def _pools(cost: PoolModel, vector: IntArray, batch: float) -> dict[str, dict[str, Any]]:
    """Devices, requests per second by itself, and memory of either pool; ``link`` is the rate of the link."""
    prefill, link, decode, _ = cost.formula_parts(vector)
    answer = cost.evaluate(vector[None])[0]
    rates = highest_load(prefill, link._replace(occupied=0.0)), decode.lanes * batch / (answer["tpot_s"] * decode.osl)
    found = {}
    for pool, part, own, size, rate in zip(
        POOLS, cost.parts, cost.space.split(vector[None]), (IN_FLIGHT, batch), rates, strict=True
    ):
        memory, degrees = part.memory_parts(own[0], size), part.tables.degrees[int(own[0, 0])]
        found[pool] = {"devices": degrees.devices, "requests_per_s": float(rate), "memory_bytes": memory}
    return found


def _ttft_parts_ms(cost: PoolModel, vector: IntArray, rate: float, td: float) -> dict[str, float]:
    """What TTFT is made of at a rate."""
    prefill, link, decode, _ = cost.formula_parts(vector)
    rules = cost.program.rules
    q, g = rules.quantile, rules.queue_factor
    alone = prefill_seconds(prefill, 0.0, q, g)
    parts = {
        "prefill": alone,
        "wait": prefill_seconds(prefill, rate, q, g) - alone,
        "transfer": transfer_seconds(link, rate, g),
        "decode": (1 + q / decode.pp) * td,
    }
    return {name: 1e3 * float(seconds) for name, seconds in parts.items()}
