"""The compiled best batch size of one strategy: the best rung of the ladder, refined between its neighbours."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import inlined
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.program import FloatArray, Index
from lts_bench.cost.steady import (
    NO_LIMIT,
    Number,
    Replica,
    Round,
    Rules,
    round_between,
    round_seconds,
    tpot_seconds,
    ttft_seconds,
    ttft_terms,
)

CERTAIN = 1 - 1e-9
"""How far from a limit rounding cannot matter."""


@inlined
def round_of(
    decode: FloatArray, waits: FloatArray, service: FloatArray, prefill: FloatArray, row: Index, n: Index, phase: Index
) -> Round:
    """The round at a rung."""
    return Round(decode[n, phase], waits[row, phase], service[n, phase], prefill[n, phase])


@inlined
def may_reach(replica: Replica, rules: Rules, batch: float, at: Round, least: float) -> bool:
    """Whether the rate may be as high as ``least``: the memory suffices, and TPOT is td + w·s̄ at the least."""
    shortest = at.decode + at.waits * at.service
    if batch > replica.capacity or shortest > rules.tpot_limit:
        return False
    return bool(batch * replica.pp >= least * shortest * CERTAIN)


@inlined
def rate_of_one(replica: Replica, rules: Rules, batch: float, at: Round) -> float:
    """``rate`` of numbers whose memory suffices, which need not slow down rounds that are slow enough as they are."""
    terms, s = ttft_terms(replica, rules, at), at.decode
    if ttft_seconds(terms, s) > rules.ttft_limit * CERTAIN:
        s = round_seconds(s, terms, rules.ttft_limit)
    tpot = tpot_seconds(replica.pp, at, s) if replica.pp > 1 else s + at.waits * at.service
    return batch * replica.pp / tpot if tpot <= rules.tpot_limit and tpot < NO_LIMIT else 0.0


@inlined
def best_between(
    replica: Replica,
    rules: Rules,
    low_batch: float,
    span: float,
    below: Round,
    above: Round,
    beside: float,
    least: float,
) -> tuple[float, float, Round]:
    """(rate, b, round) of the best integer strictly between two rungs; none where ``beside`` has less than ``least``.

    Ties go to the smallest, and a rate of 0 stands for none.
    """
    best, extra, at = 0.0, beside, round_between(below, above, beside / span)
    beginning = low_batch + beside
    if may_reach(replica, rules, beginning, at, least) and rate_of_one(replica, rules, beginning, at) >= least:
        best = least
        for fewer in range(1, int(span)):
            more = span - fewer
            at = round_between(below, above, more / span)
            if may_reach(replica, rules, low_batch + more, at, best):
                its = rate_of_one(replica, rules, low_batch + more, at)
                if its >= best:
                    best, extra = its, more
    return best, low_batch + extra, round_between(below, above, extra / span)


@inlined
def best_point(
    replica: Replica,
    rules: Rules,
    batches: FloatArray,
    decode: FloatArray,
    waits: FloatArray,
    service: FloatArray,
    prefill: FloatArray,
    row: Index,
    n: Index,
    filled: Index,
) -> tuple[float, float, Round]:
    """(rate, b, round) of the best rung, refined towards both neighbours; ties: the smallest b.

    Large batches come first: most of what is smaller cannot reach their rate, and that is soon seen.
    """
    one, first = np.uint64(1), np.uint64(FIRST_RUNG)
    rung: Index = first
    its = 0.0
    for fewer in range(one, filled - first + one):
        phase = filled - fewer
        at = round_of(decode, waits, service, prefill, row, n, phase)
        if may_reach(replica, rules, batches[phase], at, its):
            found = rate_of_one(replica, rules, batches[phase], at)
            if found >= its and found > 0:
                rung, its = phase, found
    size: Number = batches[rung]
    best, at = its, round_of(decode, waits, service, prefill, row, n, rung)
    if its > 0:
        for low in range(max(rung - one, first), min(rung + one, filled - one)):
            span = batches[low + one] - batches[low]
            if 1 < span < np.inf:
                below = round_of(decode, waits, service, prefill, row, n, low)
                above = round_of(decode, waits, service, prefill, row, n, low + one)
                beside = 1.0 if low == rung else span - 1
                found, b, between = best_between(replica, rules, batches[low], span, below, above, beside, its)
                if found > best or (found == best and b < size):
                    best, size, at = found, b, between
    return best, size, at
