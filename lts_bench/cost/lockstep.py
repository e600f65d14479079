"""How many prompts a data-parallel rank waits for in one round of decoding."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lts_bench.cost.nodes import Setting
from lts_bench.space.strategy import Degrees

FloatArray = NDArray[np.float64]


def lockstep_waits(prompts: FloatArray, dp: int) -> FloatArray:
    """W = E⌈K / dp⌉ with K ~ Poisson(prompts · dp): any rank that prefills makes all ranks wait.

    The sum over the probabilities of K runs over 12 standard deviations around its mean.
    """
    return np.array([_mean_rounds(mean, dp) for mean in np.atleast_1d(prompts * dp).tolist()])


def _mean_rounds(mean: float, dp: int) -> float:
    reach = 12 * sqrt(mean) + 12
    count = np.arange(max(floor(mean - reach), 1), ceil(mean + reach) + 1)
    log_probability = count * log(mean) - mean - gammaln(count + 1)
    return float(np.exp(log_probability) @ np.ceil(count / dp))


def wait_rows(setting: Setting, degrees: Sequence[Degrees]) -> tuple[NDArray[np.int64], FloatArray]:
    """(row of each degrees, (rows, rungs) prompts waited for): a = b·pp/osl, w in lockstep without coordination."""
    batches, osl = setting.phases.batches.astype(np.float64), setting.phases.workload.osl
    coordinated = setting.engine.coordinated_admission
    places: dict[tuple[int, int], int] = {}
    rows: list[FloatArray] = []
    for d in degrees:
        key = (d.pp, 1 if coordinated else d.dp)
        if key not in places:
            places[key] = len(rows)
            prompts = batches * d.pp / osl
            rows.append(prompts if key[1] == 1 else lockstep_waits(prompts, d.dp))
    order = np.array([places[d.pp, 1 if coordinated else d.dp] for d in degrees], dtype=np.int64)
    return order, np.array(rows)
