"""How many prompts a data-parallel rank waits for in one round of decoding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.nodes import Setting
from lts_bench.cost.rows import distinct_rows
from lts_bench.space.degrees_table import DegreesTable
from lts_bench.space.strategy import Degrees

FloatArray = NDArray[np.float64]


def lockstep_waits(prompts: FloatArray, dp: int) -> FloatArray:
    """W = E⌈K / dp⌉ = Σ_j P(K > j·dp) with K ~ Poisson(prompts · dp): any rank that prefills makes all ranks wait.

    The sum runs over 12 standard deviations around the mean, below which the probabilities are 1.
    """
    # To import it takes longer than to evaluate a strategy, and without data parallelism nobody needs it.
    from scipy.special import gammainc

    mean = np.atleast_1d(prompts * dp)
    reach = 12 * np.sqrt(mean) + 12
    first = np.maximum(np.floor((mean - reach) / dp), 0.0)
    terms = first[:, None] + np.arange(np.ceil(2 * reach.max() / dp) + 2)
    waits: FloatArray = first + gammainc(terms * dp + 1, mean[:, None]).sum(axis=1)
    return waits


def prefill_shares(prompts: FloatArray, waits: FloatArray, dp: int) -> FloatArray:
    """How full the prefills waited for are: 0 where one rank has a prompt each time, or none has, 1 where all have.

    A round of K prompts holds ⌈K/dp⌉ prefills, K/⌈K/dp⌉ prompts each: (a·dp/w − 1)/(dp − 1) of the way from 1 to dp.
    """
    if dp == 1:
        return np.ones_like(prompts)
    return np.clip((prompts * dp / np.maximum(waits, np.finfo(float).tiny) - 1) / (dp - 1), 0.0, 1.0)


def wait_rows(setting: Setting, degrees: Sequence[Degrees]) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """(row of each degrees, prefills waited for, how full they are), the latter (rows, rungs).

    b/osl prompts arrive at a rank and microbatch in a round; ranks wait for pp times what that takes in lockstep, for
    b·pp/osl where admission is coordinated: then all ranks prefill in the same step.
    """
    prompts = setting.phases.batches / setting.phases.workload.osl
    columns = DegreesTable.of(degrees).columns
    ranks = np.ones_like(columns["dp"]) if setting.engine.coordinated_admission else columns["dp"]
    keys = np.stack((columns["pp"], ranks), axis=1)
    first, rows = distinct_rows(keys)
    waits, shares = [], []
    for pp, dp in keys[first].tolist():
        steps = lockstep_waits(prompts, dp) if dp > 1 else prompts
        waits.append(pp * steps)
        shares.append(prefill_shares(prompts, steps, dp))
    return rows, np.array(waits), np.array(shares)
