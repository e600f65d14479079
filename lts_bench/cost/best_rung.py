"""The compiled best batch size of one strategy: the best rung of the ladder, refined between its neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.cost.compiled import inlined, select
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.program import FloatArray, Index
from lts_bench.cost.rows import LINE
from lts_bench.cost.steady import (
    NO_LIMIT,
    Number,
    Replica,
    Round,
    Rules,
    round_between,
    round_seconds,
    tpot_seconds,
    tpot_within,
    ttft_seconds,
    ttft_terms,
)
from lts_bench.cost.vectors import bits, highest, lanes, line_at

CERTAIN, NEARLY = 1 - 1e-9, 1 + 1e-9
"""How far from a limit rounding cannot matter."""


class Rounds(NamedTuple):
    """(phases,) rounds at every phase, as in ``Round``."""

    decode: FloatArray
    waits: FloatArray
    service: FloatArray
    prefill: FloatArray


@inlined
def round_of(rounds: Rounds, phase: Index) -> Round:
    """The round at a rung."""
    return Round(rounds.decode[phase], rounds.waits[phase], rounds.service[phase], rounds.prefill[phase])


@inlined
def line_of_rounds(rounds: Rounds, line: Index) -> Round:
    """The rounds of a line of phases."""
    return Round(
        line_at(rounds.decode, line),
        line_at(rounds.waits, line),
        line_at(rounds.service, line),
        line_at(rounds.prefill, line),
    )


@inlined
def may_reach(replica: Replica, rules: Rules, batch: Number, at: Round, least: float) -> Number:
    """Whether the rate may be as high as ``least`` within the limits on memory and TPOT, TTFT aside."""
    slowest = batch * (replica.pp / least)
    most = NEARLY * select(slowest > rules.tpot_limit, rules.tpot_limit, slowest)
    return (batch <= replica.capacity) & tpot_within(replica.pp, at, most)


@inlined
def rate_of_one(replica: Replica, rules: Rules, batch: float, at: Round) -> float:
    """``rate`` of numbers whose memory suffices, which need not slow down rounds that are slow enough as they are."""
    terms, s = ttft_terms(replica, rules, at), at.decode
    if ttft_seconds(terms, s) > rules.ttft_limit * CERTAIN:
        s = round_seconds(s, terms, rules.ttft_limit)
    tpot = tpot_seconds(replica.pp, at, s) if replica.pp > 1 else s + at.waits * at.service
    return batch * replica.pp / tpot if tpot <= rules.tpot_limit and tpot < NO_LIMIT else 0.0


@inlined
def goes_on(replica: Replica, rules: Rules, batches: FloatArray, rounds: Rounds, last: Index) -> bool:
    """Whether a larger batch than the one of the ``last`` phase may be of use.

    TPOT rises with the batch: one that exceeds its limit with the prefills is done if it is feasible at all, else the
    search for its least violation goes on until it exceeds the limit decoding alone. A prompt mixed into a larger step
    may cost less.
    """
    if batches[last] > replica.capacity or rounds.decode[last] > rules.tpot_limit:
        return False
    if rules.mixed or tpot_within(replica.pp, round_of(rounds, last), NEARLY * rules.tpot_limit):
        return True
    first = np.uint64(FIRST_RUNG)
    if batches[first] > replica.capacity:
        return True
    return rate_of_one(replica, rules, batches[first], round_of(rounds, first)) == 0


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
        best, after = least, span
        while after > 1:
            after -= LINE
            more = lanes() + after
            within = bits((more >= 1) & (more <= span - 1))
            between = round_between(below, above, more * (1 / span))
            left = bits(may_reach(replica, rules, more + low_batch, between, best)) & within
            while left:
                which = highest(left)
                left ^= np.uint64(1) << which
                its_extra = after + which
                at = round_between(below, above, its_extra / span)
                its = rate_of_one(replica, rules, low_batch + its_extra, at)
                if its >= best:
                    best, extra = its, its_extra
                    if left:
                        left &= bits(may_reach(replica, rules, more + low_batch, between, best))
    return best, low_batch + extra, round_between(below, above, extra / span)


@inlined
def best_rung(
    replica: Replica, rules: Rules, batches: FloatArray, rounds: Rounds, filled: Index
) -> tuple[Index, float]:
    """(phase, rate) of the best rung; ties go to the smallest, and a rate of 0 stands for none.

    Large batches come first: most of what is smaller cannot reach their rate, and that is soon seen. Phases that are no
    rungs have a batch of infinity, which no memory holds.
    """
    one, rung, best = np.uint64(1), np.uint64(FIRST_RUNG), 0.0
    lines = np.uint64(filled) // np.uint64(LINE)
    for fewer in range(one, lines + one):
        line = lines - fewer
        batch, at = line_at(batches, line), line_of_rounds(rounds, line)
        left = bits(may_reach(replica, rules, batch, at, best))
        while left:
            which = highest(left)
            left ^= one << which
            phase = line * np.uint64(LINE) + which
            found = rate_of_one(replica, rules, batches[phase], round_of(rounds, phase))
            if found >= best and found > 0:
                rung, best = phase, found
                if left:
                    left &= bits(may_reach(replica, rules, batch, at, best))
    return rung, best


@inlined
def best_point(
    replica: Replica, rules: Rules, batches: FloatArray, rounds: Rounds, filled: Index
) -> tuple[float, float, Round]:
    """(rate, b, round) of the best of ``filled`` phases, refined towards both neighbours; ties: the smallest b."""
    one = np.uint64(1)
    rung, its = best_rung(replica, rules, batches, rounds, filled)
    size: Number = batches[rung]
    best, at = its, round_of(rounds, rung)
    if its > 0:
        for low in range(max(rung - one, np.uint64(FIRST_RUNG)), min(rung + one, filled - one)):
            span = batches[low + one] - batches[low]
            if 1 < span < np.inf:
                below, above = round_of(rounds, low), round_of(rounds, low + one)
                beside = 1.0 if low == rung else span - 1
                found, b, between = best_between(replica, rules, batches[low], span, below, above, beside, its)
                if found > best or (found == best and b < size):
                    best, size, at = found, b, between
    return best, size, at
