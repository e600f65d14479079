"""How much a strategy can serve with any batch size between two rungs of the ladder.

Exact if the numbers are a strategy's own, and an upper bound if they are lower bounds of its times and bytes, as
everything falls with these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.cost.best_batch import taken
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.cost.steady import NO_LIMIT, Replica, Round, Rules, rate, round_between

SHORTEST = 1e-12
"""Seconds that no TPOT is below, so that a bound is finite."""
SLICES = 8
"""Of a prompt's service, for bounds of pipelines."""
CHUNK = 1 << 18
"""Operating points that are worked out together."""


class Ends(NamedTuple):
    """Strategies between two rungs.

    Attributes:
        replica: (n,).
        low: (n,) rounds at the lower rung, ``high`` at the upper one.
        least_low: (n, k) no TPOT is shorter at the lower rung, ``least_high`` at the upper one, and linearly between;
            below 0 where they tell nothing.
        rest: seconds that a prompt takes in all stages but the heaviest, at least; 0 without a pipeline.
    """

    replica: Replica
    low: Round
    high: Round
    least_low: FloatArray
    least_high: FloatArray
    rest: float = 0.0

    def take(self, rows: IntArray) -> Ends:
        """Those of some strategies."""
        low, high = taken(self.low, rows), taken(self.high, rows)
        replica, least = taken(self.replica, rows), (self.least_low[rows], self.least_high[rows])
        return Ends(replica, low, high, *least, self.rest)


def highest_rate(ends: Ends, rules: Rules, low: float, high: float, least: FloatArray) -> FloatArray:
    """(n,) highest tokens/s of a data-parallel rank with an integer batch from ``low`` to ``high``; 0 where infeasible.

    Where even a coarse bound is not above ``least`` (n,), that bound is given.
    """
    found = _coarse(ends, rules, low, high)
    rows = np.flatnonzero(found > least)
    batches = np.arange(low, high + 1)
    step = max(CHUNK // len(batches), 1)
    for begin in range(0, len(rows), step):
        part = rows[begin : begin + step]
        found[part] = _rates(ends.take(part), rules, batches).max(axis=1)
    return found


def _coarse(ends: Ends, rules: Rules, low: float, high: float) -> FloatArray:
    """The upper batch in the shorter of both rounds; coordinated waits shorten the time to the first token."""
    at = Round(*(np.minimum(a, b) for a, b in zip(ends.low, ends.high, strict=True)))
    limits = rules._replace(ttft_limit=NO_LIMIT) if rules.coordinated else rules
    fits = ends.replica.capacity >= low
    replica = ends.replica._replace(capacity=np.where(fits, high, 0.0))
    least = np.minimum(ends.least_low, ends.least_high).max(axis=1)
    return _least_rate(replica, limits, high, at, least)


def _rates(ends: Ends, rules: Rules, batches: FloatArray) -> FloatArray:
    """(n, batches) rates."""
    share = (batches - batches[0]) / max(batches[-1] - batches[0], 1.0)
    column = (slice(None), None)
    replica, low, high = taken(ends.replica, column), taken(ends.low, column), taken(ends.high, column)
    least = ends.least_low[..., None] + share * (ends.least_high - ends.least_low)[..., None]
    at, shortest = round_between(low, high, share), least.max(axis=1)
    found = _least_rate(replica, rules, batches, at, shortest)
    return np.minimum(found, _pipelined_rates(replica, rules, batches, at, shortest, ends.rest)) if ends.rest else found


def _pipelined_rates(
    replica: Replica, rules: Rules, batches: FloatArray, at: Round, shortest: FloatArray, rest: float
) -> FloatArray:
    """Rates of pipelines whose td + w·s̄ is at least ``shortest``, while a prompt takes s̄ + ``rest`` at least.

    The more of that is s̄, the less is td: the highest rate of all ways to share it, in slices of s̄.
    """
    spare = np.maximum(shortest - at.decode - at.waits * at.service, 0.0) / at.waits
    found = np.zeros_like(shortest)
    for part in range(SLICES):
        service, more = at.service + spare * part / SLICES, at.service + spare * (part + 1) / SLICES
        decode = np.maximum(at.decode, shortest - at.waits * more)
        sliced = Round(decode, at.waits, service, np.maximum(at.prefill, service + rest))
        with np.errstate(all="ignore"):
            found = np.maximum(found, rate(replica, rules, batches, sliced))
    return found


def _least_rate(
    replica: Replica, rules: Rules, batches: FloatArray | float, at: Round, least: FloatArray
) -> FloatArray:
    """The rate that the rounds allow, or that of the shortest TPOT where it is less."""
    least = np.maximum(least, SHORTEST)
    with np.errstate(all="ignore"):
        shortest = np.where(least <= rules.tpot_limit, batches * replica.pp / least, 0.0)
        found: FloatArray = np.minimum(rate(replica, rules, batches, at), shortest)
    return found
