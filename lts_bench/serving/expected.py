"""What the closed form expects of a strategy below its highest rate: mean TTFT and TPOT under an offered rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.cost.model import CostModel
from lts_bench.cost.phases import Phases
from lts_bench.cost.pool_formulas import ttft_seconds as pool_ttft_seconds
from lts_bench.cost.pool_model import cost_of_pools
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.cost.steady import Replica, Round, tpot_seconds, ttft_seconds, ttft_terms
from lts_bench.serving.pool_replay import ServedPools
from lts_bench.serving.step_tables import Served

MEAN, QUEUE = 0.5, 1.0
"""q and g of a mean: half a step, and the mean wait."""
HALVINGS = 60


class Expected(NamedTuple):
    """Mean latencies in seconds."""

    ttft_s: float
    tpot_s: float


def expected(served: Served | ServedPools, requests_per_s: float) -> Expected:
    """Mean latencies at a rate that the strategy sustains, decode steps as fast as they can be."""
    if isinstance(served, ServedPools):
        return _of_pools(served, requests_per_s)
    cost, vector = served.cost(Phases.of(served.workload, served.engine))
    return _co_located(cost, vector, requests_per_s)


def _co_located(cost: CostModel, vector: IntArray, requests_per_s: float) -> Expected:
    degrees, ladder = cost.tables.degrees[int(vector[0])], cost.program.ladder
    pp, rounds = float(degrees.pp), cost.rounds(vector)
    lanes = degrees.replicas * degrees.dp * degrees.pp / cost.setting.phases.workload.osl

    def at(batch: float) -> tuple[Round, float]:
        found = Round(*(float(np.interp(batch, ladder, each)) for each in rounds))
        # Below the first rung fewer sequences decode at a time, prompts come as seldom.
        found = found._replace(waits=found.waits * min(batch, 1.0))
        return found, float(tpot_seconds(pp, found, found.decode))

    low, high = 0.0, float(ladder[-1])
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if lanes * middle / at(middle)[1] < requests_per_s else (low, middle)
    found, tpot = at(high)
    rules = cost.program.rules._replace(quantile=MEAN, queue_factor=QUEUE)
    terms = ttft_terms(Replica(np.inf, pp, float(degrees.dp)), rules, found)
    return Expected(float(ttft_seconds(terms, found.decode)), tpot)


def _of_pools(served: ServedPools, requests_per_s: float) -> Expected:
    cost, vector = cost_of_pools(served.model, served.cluster, served.engine, served.workload, served.strategy)
    prefill, link, decode, td = cost.formula_parts(vector)
    ladder: FloatArray = cost.program.decode.ladder
    rates = decode.lanes * ladder / (td * decode.osl)
    step = float(np.interp(requests_per_s, rates, td))
    return Expected(float(pool_ttft_seconds(prefill, link, decode.pp, step, requests_per_s, MEAN, QUEUE)), step)
