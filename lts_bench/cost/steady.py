"""Steady serving in closed form: from step times to TTFT, TPOT, throughput and the best batch size.

In a round every sequence gets one token. A rank waits for w prefills in it, each of the heaviest stage's s̄, and T is
one prompt through all stages; s ≥ td is the round time after admission control. TPOT = s + w·s̄ and
TTFT = T + g·w·s̄²/(2s) + c·s with g = −ln(1 − q), c = q/pp. With coordinated admission c = q/pp + (dp − 1)/(2·dp·w) and
T grows by (dp − 1)·s̄/(2·dp). Slowing decode shortens the queue, so the operator may throttle: s is the smallest
value ≥ td between the roots of TTFT = limit.
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
    """What a replica's operating points depend on beside batch size and round.

    Attributes:
        capacity: most sequences b that a rank's memory holds for a microbatch, 0 where not one whole sequence fits.
    """

    capacity: float
    pp: float
    dp: float


class Round(NamedTuple):
    """One round of decoding at a batch size.

    Attributes:
        decode: td, one token for everybody, seconds.
        waits: w.
        service: s̄, seconds.
        prefill: T, seconds.
    """

    decode: float
    waits: float
    service: float
    prefill: float


ROUND = 4
"""Rows of an array of rounds, in the order of ``Round``, one column a rung of the batch ladder."""


@compiled
def batch_capacity(stages: FloatArray, pp: float, room: float) -> float:
    """Largest b with weights + max(b·pp · mean KV, one whole KV) ≤ room on every stage; 0 where b = 1 does not fit.

    ``stages`` are (distinct stages, 3) bytes: weights, KV of one sequence in the mean, KV of one whole sequence.
    ``room`` is what a device has less its buffers.
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
def ttft_terms(replica: Replica, rules: Rules, at: Round) -> tuple[float, float, float]:
    """(T, c, g·w·s̄²/2): TTFT = T + c·s + queue/s."""
    c, base = rules.quantile / replica.pp, at.prefill
    if rules.coordinated and replica.dp > 1:
        c += (replica.dp - 1) / (2 * replica.dp * at.waits)
        base += (replica.dp - 1) * at.service / (2 * replica.dp)
    return base, c, rules.queue_factor * at.waits * at.service * at.service / 2


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
def rate(replica: Replica, rules: Rules, batch: float, at: Round) -> float:
    """Tokens/s of one data-parallel rank, b·pp/TPOT; 0 where infeasible."""
    working = at.waits * at.service
    if batch > replica.capacity or (0 < rules.tpot_limit < at.decode + working):
        return 0.0
    base, c, queue = ttft_terms(replica, rules, at)
    s = round_seconds(at.decode, base, c, queue, rules.ttft_limit)
    if s < 0 or (0 < rules.tpot_limit < s + working):
        return 0.0
    return batch * replica.pp / (s + working)


@compiled
def round_at(rounds: FloatArray, rung: int) -> Round:
    """The round at a rung."""
    return Round(rounds[0, rung], rounds[1, rung], rounds[2, rung], rounds[3, rung])


@compiled
def round_between(low: Round, high: Round, share: float) -> Round:
    """Linear interpolation between two rungs, ``share`` of the way."""
    return Round(
        low.decode + share * (high.decode - low.decode),
        low.waits + share * (high.waits - low.waits),
        low.service + share * (high.service - low.service),
        low.prefill + share * (high.prefill - low.prefill),
    )


@compiled
def rate_between(
    replica: Replica, rules: Rules, batch: float, low_batch: float, high_batch: float, low: Round, high: Round
) -> float:
    """The rate at a batch size between two rungs."""
    at = round_between(low, high, (batch - low_batch) / (high_batch - low_batch))
    return rate(replica, rules, batch, at)


@compiled
def climb(replica: Replica, rules: Rules, low_batch: float, high_batch: float, low: Round, high: Round) -> float:
    """The integer strictly between two rungs at which the rate stops rising: bisection on its slope."""
    first, last = low_batch + 1, high_batch - 1
    while first < last:
        here = floor((first + last) / 2)
        rate_here = rate_between(replica, rules, here, low_batch, high_batch, low, high)
        rate_after = rate_between(replica, rules, here + 1, low_batch, high_batch, low, high)
        if rate_after > rate_here:
            first = here + 1
        else:
            last = here
    return first


@compiled
def last_rung(replica: Replica, rules: Rules, batches: FloatArray, rounds: FloatArray, rungs: int) -> int:
    """The last rung within memory and, decoding alone, within the TPOT limit; -1 for none."""
    rung = 0
    limit = rules.tpot_limit if rules.tpot_limit > 0 else inf
    while rung < rungs and batches[rung] <= replica.capacity and rounds[0, rung] <= limit:
        rung += 1
    return rung - 1


@compiled
def best_rung(replica: Replica, rules: Rules, batches: FloatArray, rounds: FloatArray, rungs: int) -> tuple[float, int]:
    """(rate, rung) of the best rung; ties go to the smallest, a rate of 0 means that none is feasible."""
    best, at = 0.0, 0
    for rung in range(last_rung(replica, rules, batches, rounds, rungs), -1, -1):
        unthrottled = rounds[0, rung] + rounds[1, rung] * rounds[2, rung]
        if batches[rung] * replica.pp >= best * unthrottled:
            found = rate(replica, rules, batches[rung], round_at(rounds, rung))
            if found > 0 and found >= best:
                best, at = found, rung
    return best, at


@compiled
def best_batch(
    replica: Replica, rules: Rules, batches: FloatArray, rounds: FloatArray, rungs: int
) -> tuple[float, float, Round]:
    """(rate, b, round) of the best point: the best rung, refined towards both neighbours; ties: the smallest b.

    ``batches`` is the ladder, and the first ``rungs`` columns of (ROUND, …) ``rounds`` are filled.
    """
    its_rate, rung = best_rung(replica, rules, batches, rounds, rungs)
    best, batch, at = its_rate, batches[rung], round_at(rounds, rung)
    if best <= 0.0:
        return 0.0, batch, at
    for low in range(max(rung - 1, 0), min(rung + 1, rungs - 1)):
        below, above = round_at(rounds, low), round_at(rounds, low + 1)
        beside = batches[rung] + (1 if low == rung else -1)
        if not batches[low] < beside < batches[low + 1]:
            continue
        if rate_between(replica, rules, beside, batches[low], batches[low + 1], below, above) < its_rate:
            continue
        inside = climb(replica, rules, batches[low], batches[low + 1], below, above)
        its = round_between(below, above, (inside - batches[low]) / (batches[low + 1] - batches[low]))
        found = rate(replica, rules, inside, its)
        if found > best or (found == best and inside < batch):
            best, batch, at = found, inside, its
    return best, batch, at


@compiled
def excess(value: float, limit: float) -> float:
    """Relative violation of a limit."""
    return 0.0 if limit <= 0 or value <= limit else value / limit - 1
