"""Steady serving in closed form: from step times to TTFT, TPOT and throughput.

In a round every sequence gets one token. A rank waits for w prefills in it, each of the heaviest stage's s̄, and T is
one prompt through all stages; s ≥ td is the round time after admission control. TPOT = s + w·s̄ and
TTFT = T + g·w·s̄²/(2s) + c·s with g = −ln(1 − q), c = q/pp. With coordinated admission c = q/pp + (dp − 1)/(2·dp·w) and
T grows by (dp − 1)·s̄/(2·dp). Slowing decode shortens the queue, so the operator may throttle: s is the smallest
value ≥ td between the roots of TTFT = limit.

Every formula takes numbers, in the compiled loop, or arrays of equal shapes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import formula, select

FloatArray = NDArray[np.float64]
Number: TypeAlias = Any
"""A number, or an array of them."""
NO_LIMIT = 1e30
"""Stands for infinity, so that differences stay finite."""


class Rules(NamedTuple):
    """What decides feasibility, the strategy aside.

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

    capacity: Number
    pp: Number
    dp: Number


class Round(NamedTuple):
    """One round of decoding at a batch size.

    Attributes:
        decode: td, one token for everybody, seconds.
        waits: w.
        service: s̄, seconds.
        prefill: T, seconds.
    """

    decode: Number
    waits: Number
    service: Number
    prefill: Number


@formula
def sequences_held(weights: Number, mean_kv: Number, whole_kv: Number, pp: Number, room: Number) -> Number:
    """Largest b of a stage with weights + max(b·pp · mean KV, one whole KV) ≤ room; 0 where b = 1 does not fit.

    ``room`` is what a device has less its buffers.
    """
    left = room - weights
    fits = (left >= whole_kv) & (left >= pp * mean_kv)
    most = select(mean_kv > 0, np.floor(left / select(mean_kv > 0, pp * mean_kv, 1.0)), NO_LIMIT)
    return select(fits, most, 0.0)


@formula
def memory_bytes(weights: Number, mean_kv: Number, whole_kv: Number, sequences: Number) -> Number:
    """Bytes of a stage, buffers aside, holding ``sequences`` = b·pp of a rank."""
    return weights + np.maximum(sequences * mean_kv, whole_kv)


@formula
def ttft_terms(replica: Replica, rules: Rules, at: Round) -> tuple[Number, Number, Number]:
    """(T, c, g·w·s̄²/2): TTFT = T + c·s + queue/s."""
    c, base = rules.quantile / replica.pp, at.prefill
    if rules.coordinated:
        c = c + (replica.dp - 1) / (2 * replica.dp * at.waits)
        base = base + (replica.dp - 1) * at.service / (2 * replica.dp)
    return base, c, rules.queue_factor * at.waits * at.service * at.service / 2


@formula
def round_seconds(td: Number, base: Number, c: Number, queue: Number, ttft_limit: float) -> Number:
    """The smallest s ≥ td that meets the TTFT limit; ``NO_LIMIT`` for none."""
    room = ttft_limit - base
    discriminant = room * room - 4 * c * queue
    root = np.sqrt(np.maximum(discriminant, 0.0))
    meets = (room > 0) & (discriminant >= 0) & (td <= (room + root) / (2 * c))
    return select(meets, np.maximum(td, (room - root) / (2 * c)), NO_LIMIT)


@formula
def rate(replica: Replica, rules: Rules, batch: Number, at: Round) -> Number:
    """Tokens/s of one data-parallel rank, b·pp/TPOT; 0 where infeasible."""
    base, c, queue = ttft_terms(replica, rules, at)
    tpot = round_seconds(at.decode, base, c, queue, rules.ttft_limit) + at.waits * at.service
    feasible = (batch <= replica.capacity) & (tpot <= rules.tpot_limit) & (tpot < NO_LIMIT)
    return select(feasible, batch * replica.pp / tpot, 0.0)


@formula
def round_between(low: Round, high: Round, share: Number) -> Round:
    """Linear interpolation between two rungs of the batch ladder, ``share`` of the way."""
    return Round(
        low.decode + share * (high.decode - low.decode),
        low.waits + share * (high.waits - low.waits),
        low.service + share * (high.service - low.service),
        low.prefill + share * (high.prefill - low.prefill),
    )


@formula
def excess(value: Number, limit: float) -> Number:
    """Relative violation of a limit."""
    return np.maximum(value / limit - 1, 0.0)
