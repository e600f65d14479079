"""Steady serving in closed form: from step times to TTFT, TPOT, throughput and the best batch size.

With w prompts a rank waits for in a round, T_p and s_p the prefill's time through all stages and in the heaviest one,
and s ≥ td the round time after admission control, TPOT = s + w·s_p and TTFT = T + g·w·s_p²/(2s) + c·s with
g = −ln(1 − q), T = T_p, c = q/pp. With coordinated admission c = q/pp + (dp − 1)/(2·dp·a), T = T_p + (dp − 1)·s_p/(2·dp).
Slowing decode shortens the queue, so the operator may throttle: s is the smallest value ≥ td between the roots of
TTFT = limit.
"""

from __future__ import annotations

from math import floor, inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled

FloatArray = NDArray[np.float64]


class Rules(NamedTuple):
    """What decides feasibility, the strategy aside; limits ≤ 0 are none.

    Attributes:
        quantile: q of the TTFT limit.
        queue_factor: g.
        coordinated: whether data-parallel ranks admit prompts together.
    """

    memory_limit: float
    ttft_limit: float
    tpot_limit: float
    quantile: float
    queue_factor: float
    coordinated: bool


class Replica(NamedTuple):
    """What a replica's operating points depend on beside batch size and decode time.

    Attributes:
        heaviest_prefill: s_p.
        prefill: T_p.
        capacity: most sequences b that a rank's memory holds for a microbatch, 0 where not one whole sequence fits.
    """

    heaviest_prefill: float
    prefill: float
    capacity: float
    pp: float
    dp: float


@compiled
def batch_capacity(stages: FloatArray, pp: float, room: float) -> float:
    """Largest b with weights + max(b·pp · mean KV, one whole KV) ≤ room on every stage; 0 where b = 1 does not fit.

    Args:
        stages: (distinct stages, 3) bytes: weights, KV of one sequence in the mean, KV of one whole sequence.
        room: bytes of a device less its buffers.
    """
    most = inf
    for stage in range(stages.shape[0]):
        left = room - stages[stage, 0]
        if left < stages[stage, 2] or left < pp * stages[stage, 1]:
            return 0.0
        if stages[stage, 1] > 0:
            most = min(most, floor(left / (pp * stages[stage, 1])))
    return most


@compiled
def memory_bytes(stages: FloatArray, sequences: float) -> float:
    """Bytes of the fullest device, buffers aside, holding ``sequences`` = b·pp of a rank."""
    most = 0.0
    for stage in range(stages.shape[0]):
        most = max(most, stages[stage, 0] + max(sequences * stages[stage, 1], stages[stage, 2]))
    return most


@compiled
def ttft_terms(replica: Replica, rules: Rules, wait: float) -> tuple[float, float, float]:
    """(T, c, g·w·s_p²/2): TTFT = T + c·s + queue/s."""
    c, base = rules.quantile / replica.pp, replica.prefill
    if rules.coordinated and replica.dp > 1:
        c += (replica.dp - 1) / (2 * replica.dp * wait)
        base += (replica.dp - 1) * replica.heaviest_prefill / (2 * replica.dp)
    return base, c, rules.queue_factor * wait * replica.heaviest_prefill * replica.heaviest_prefill / 2


@compiled
def round_seconds(td: float, base: float, c: float, queue: float, ttft_limit: float) -> float:
    """The smallest s ≥ td that meets the TTFT limit, or -1."""
    if ttft_limit <= 0:
        return td
    room = ttft_limit - base
    discriminant = room * room - 4 * c * queue
    if room <= 0 or discriminant < 0:
        return -1.0
    root = sqrt(discriminant)
    if td > (room + root) / (2 * c):
        return -1.0
    return max(td, (room - root) / (2 * c))


@compiled
def rate(replica: Replica, rules: Rules, batch: float, td: float, wait: float) -> float:
    """Tokens/s of one data-parallel rank, b·pp/TPOT; 0 where infeasible."""
    if batch > replica.capacity or (0 < rules.tpot_limit < td + wait * replica.heaviest_prefill):
        return 0.0
    base, c, queue = ttft_terms(replica, rules, wait)
    s = round_seconds(td, base, c, queue, rules.ttft_limit)
    tpot = s + wait * replica.heaviest_prefill
    if s < 0 or (rules.tpot_limit > 0 and tpot > rules.tpot_limit):
        return 0.0
    return batch * replica.pp / tpot


@compiled
def between(batch: float, low: float, high: float, at_low: float, at_high: float) -> float:
    """Linear interpolation between two rungs."""
    return at_low + (batch - low) / (high - low) * (at_high - at_low)


@compiled
def climb(
    replica: Replica, rules: Rules, low: float, high: float, td: tuple[float, float], waits: tuple[float, float]
) -> float:
    """The integer strictly between rungs ``low`` and ``high`` at which the rate stops rising: bisection on its slope.

    Args:
        td: decode time at the two rungs.
        waits: prompts waited for at the two rungs.
    """
    first, last = low + 1, high - 1
    while first < last:
        here = floor((first + last) / 2)
        after = here + 1
        rate_here = rate(
            replica, rules, here, between(here, low, high, td[0], td[1]), between(here, low, high, waits[0], waits[1])
        )
        rate_after = rate(
            replica, rules, after, between(after, low, high, td[0], td[1]), between(after, low, high, waits[0], waits[1])
        )
        if rate_after > rate_here:
            first = after
        else:
            last = here
    return first


@compiled
def last_rung(replica: Replica, rules: Rules, batches: FloatArray, decode: FloatArray) -> int:
    """The last rung within memory and, decoding alone, within the TPOT limit; -1 for none."""
    rung = 0
    limit = rules.tpot_limit if rules.tpot_limit > 0 else inf
    while rung < len(decode) and batches[rung] <= replica.capacity and decode[rung] <= limit:
        rung += 1
    return rung - 1


@compiled
def rises(
    replica: Replica, rules: Rules, batches: FloatArray, decode: FloatArray, waits: FloatArray, rung: int
) -> bool:
    """Whether one sequence more than a rung's batch raises the rate."""
    if rung + 1 >= len(decode):
        return False
    low, high = batches[rung], batches[rung + 1]
    td = between(low + 1, low, high, decode[rung], decode[rung + 1])
    wait = between(low + 1, low, high, waits[rung], waits[rung + 1])
    return rate(replica, rules, low + 1, td, wait) > rate(replica, rules, low, decode[rung], waits[rung])


@compiled
def best_batch(
    replica: Replica, rules: Rules, batches: FloatArray, decode: FloatArray, waits: FloatArray
) -> tuple[float, float, float, float]:
    """(rate, b, td, w) of the best point: the best rung, refined between its neighbours; ties: the smallest b.

    A rate of 0 means that no rung is feasible.

    Args:
        batches: (rungs,) the ladder.
        decode: (rungs,) td.
        waits: (rungs,) w.
    """
    best, at = 0.0, 0
    for rung in range(last_rung(replica, rules, batches, decode), -1, -1):
        unthrottled = decode[rung] + waits[rung] * replica.heaviest_prefill
        if batches[rung] * replica.pp >= best * unthrottled:
            found = rate(replica, rules, batches[rung], decode[rung], waits[rung])
            if found > 0 and found >= best:
                best, at = found, rung
    batch, td, wait = batches[at], decode[at], waits[at]
    if best <= 0.0:
        return 0.0, batch, td, wait
    rung = at if rises(replica, rules, batches, decode, waits, at) else at - 1
    if rung < 0 or rung + 1 >= len(decode) or batches[rung + 1] <= batches[rung] + 1:
        return best, batch, td, wait
    low, high = batches[rung], batches[rung + 1]
    inside = climb(replica, rules, low, high, (decode[rung], decode[rung + 1]), (waits[rung], waits[rung + 1]))
    its_td = between(inside, low, high, decode[rung], decode[rung + 1])
    its_wait = between(inside, low, high, waits[rung], waits[rung + 1])
    found = rate(replica, rules, inside, its_td, its_wait)
    if found > best or (found == best and inside < batch):
        return found, inside, its_td, its_wait
    return best, batch, td, wait


@compiled
def excess(value: float, limit: float) -> float:
    """Relative violation of a limit."""
    return 0.0 if limit <= 0 or value <= limit else value / limit - 1
