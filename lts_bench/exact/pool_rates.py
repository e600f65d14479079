"""How many requests two pools serve together, given what either takes at every rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.pool_formulas import Link, Prefill, highest_load, prefill_seconds, transfer_seconds
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.cost.steady import Rules

HALVINGS = 48
"""Of the search for a rate."""


class Prompts(NamedTuple):
    """Prefill pools of the same degrees.

    Attributes:
        seconds: (n, 4) as in ``Prefill``.
    """

    seconds: FloatArray
    replicas: float
    pp: float
    dp: float


class Steps(NamedTuple):
    """Decode rounds of the same degrees.

    Attributes:
        rate: (n,) requests per second, descending.
        least: (n,) the shortest td of all that serve as many.
        which: (n,) whose that is.
        pp: pipeline stages.
    """

    rate: FloatArray
    least: FloatArray
    which: IntArray
    pp: float

    @classmethod
    def of(cls, rate: FloatArray, td: FloatArray, pp: float) -> Steps:
        """Rounds (n,) in any order."""
        order = np.argsort(-rate, kind="stable")
        least = np.minimum.accumulate(td[order])
        first = np.maximum.accumulate(np.where(td[order] <= least, np.arange(len(order)), 0))
        return cls(rate[order], least, order[first], pp)


@compiled
def waits(prompts: Prompts, rate: float, q: float, g: float) -> FloatArray:
    """(n,) seconds of wait and prefill at a rate, infinite where it is too high."""
    found = np.full(len(prompts.seconds), np.inf)
    for n in range(len(found)):
        lone, every, lone_latency, every_latency = prompts.seconds[n]
        prefill = Prefill(prompts.replicas, prompts.pp, prompts.dp, lone, every, lone_latency, every_latency)
        if rate < highest_load(prefill, Link(0.0, 0.0)):
            found[n] = prefill_seconds(prefill, rate, q, g)
    return found


@compiled
def at_rate(steps: Steps, rate: float) -> int:
    """Last of the rounds that reach a rate; -1 for none."""
    low, high = 0, len(steps.rate)
    while low < high:
        middle = (low + high) // 2
        if steps.rate[middle] >= rate:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled
def ttft(prompts: Prompts, link: Link, steps: Steps, rate: float, q: float, g: float) -> float:
    """The shortest TTFT at a rate; infinite where it is too high."""
    last = at_rate(steps, rate)
    if last < 0 or rate * link.occupied >= 1 or len(prompts.seconds) == 0:
        return np.inf
    before = waits(prompts, rate, q, g).min() + transfer_seconds(link, rate, g)
    seconds: float = before + (1 + q / steps.pp) * steps.least[last]
    return seconds


@compiled
def highest_rate(prompts: Prompts, link: Link, steps: Steps, rules: Rules) -> float:
    """The highest rate that meets the limit on TTFT; 0 for none."""
    q, g, limit = rules.quantile, rules.queue_factor, rules.ttft_limit
    if len(steps.rate) == 0 or ttft(prompts, link, steps, 0.0, q, g) > limit:
        return 0.0
    low: float = 0.0
    high: float = steps.rate[0]
    if ttft(prompts, link, steps, high, q, g) <= limit:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if ttft(prompts, link, steps, middle, q, g) <= limit:
            low = middle
        else:
            high = middle
    return low
