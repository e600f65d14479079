"""Steady serving in closed form: from step times to TTFT, TPOT and throughput.

In a round every sequence gets one token. A rank waits for w prefills in it, each of the heaviest stage's s̄, and T is
one prompt through all stages; s ≥ td is the round time after admission control. Without a pipeline TPOT = s + w·s̄ and
TTFT = T + c·s + g·w·s̄²/(2s) with g = −ln(1 − q), c = q/pp: M/D/1. In a pipeline prompts cost more
(``prompt_seconds``), and one that finds another on its way waits for half of it in the mean:
TTFT = T + c·s + g·w·T²/(2s + w·T). Engines that mix prefill into decode steps give the first token at the end of such a
step: c grows by 1/pp. With coordinated admission c grows by (dp − 1)/(2·dp·w) and T by (dp − 1)·s̄/(2·dp). Slowing
decode shortens the queue, so the operator may throttle: s is the smallest value ≥ td between the roots of TTFT = limit.

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
        mixed: whether prompts are prefilled in decode steps.
    """

    memory_limit: float
    ttft_limit: float
    tpot_limit: float
    quantile: float
    queue_factor: float
    coordinated: bool
    mixed: bool


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

    Where prompts are prefilled in decode steps, s̄ and T are what such a step takes beyond td/pp, the slot of its
    microbatch.

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


class Ttft(NamedTuple):
    """TTFT = base + per_round · s + queue / (s + beside), seconds."""

    base: Number
    per_round: Number
    queue: Number
    beside: Number


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
def larger(a: Number, b: Number) -> Number:
    """The larger of two numbers."""
    return select(a > b, a, b)


@formula
def prompt_seconds(pp: Number, at: Round, s: Number) -> Number:
    """What the prompts of a round of s add to it: w·s̄ without a pipeline, w·s̄ + w·φ·(T − s̄ − h·s) with one.

    The first prompt of a run fills the pipeline, T − s̄, while decode that would have filled it meanwhile is hidden,
    h = 1 − 1/pp; the others follow it a stage behind. With λ = w/TPOT and u = 1 − λ·s̄, the share φ that come first is
    u/(u + e^−x − 1 + x) at x = λ·T: prompts that arrive during a run are the next one, Poisson. To solve for TPOT,
    e^−x − 1 + x is taken as x²/(2 + x), and TPOT in it as s + w·s̄. A round hides no more than all of its decode.
    """
    busy, hidden = at.waits * at.service, (1 - 1 / pp) * s
    every = at.waits * larger(at.prefill, at.service + hidden)
    filling, joined = every - busy, every * every / (2 * (s + busy) + every)
    between = s + (filling - at.waits * hidden) - joined
    left = larger((between + np.sqrt(between * between + 4 * s * joined)) / 2, filling - joined)
    return select(pp > 1, busy + larger(left - s, 0.0), busy)


@formula
def tpot_seconds(pp: Number, at: Round, s: Number) -> Number:
    """TPOT of a round of s; it rises with s and every time of the round."""
    return s + prompt_seconds(pp, at, s)


@formula
def tpot_within(pp: Number, at: Round, most: Number) -> Any:
    """Whether the TPOT of a round of td is at most ``most``: ``tpot_seconds`` solved for it, without division or root.

    In a pipeline the larger of two terms must fit into r = most − w·s̄. The second one does where
    (w·T′ − w·s̄ − r)·d ≤ (w·T′)², with T′ = max(T, s̄ + h·td) and d = 2·(td + w·s̄) + w·T′; and the first one, with
    m = td + w·T′ − w·s̄ − w·h·td, where (td − r)·(w·T′)² ≤ r·(r − m)·d. Rounding may turn the answer within some 10⁻¹⁵
    of ``most``.
    """
    td, busy = at.decode, at.waits * at.service
    room = most - busy
    if pp > 1:
        hidden = (1 - 1 / pp) * td
        every = at.waits * larger(at.prefill, at.service + hidden)
        squared, d, filling = every * every, 2 * (td + busy) + every, every - busy
        m = td + filling - at.waits * hidden
        second, first = (filling - room) * d <= squared, (td - room) * squared <= room * (room - m) * d
        return (td <= room) & second & first
    return td <= room


@formula
def ttft_terms(replica: Replica, rules: Rules, at: Round) -> Ttft:
    """The terms of the TTFT."""
    others = select(rules.coordinated, (replica.dp - 1) / (2 * replica.dp), 0.0)
    c = (rules.quantile + select(rules.mixed, 1.0, 0.0)) / replica.pp + others / at.waits
    before = select(replica.pp > 1, at.prefill, at.service)
    queue = rules.queue_factor * at.waits * before * before / 2
    return Ttft(at.prefill + others * at.service, c, queue, select(replica.pp > 1, at.waits * at.prefill / 2, 0.0))


@formula
def ttft_seconds(ttft: Ttft, s: Number) -> Number:
    """TTFT of a round of s."""
    return ttft.base + ttft.per_round * s + ttft.queue / (s + ttft.beside)


@formula
def round_seconds(td: Number, ttft: Ttft, ttft_limit: float) -> Number:
    """The smallest s ≥ td that meets the TTFT limit; ``NO_LIMIT`` for none."""
    c = ttft.per_round
    room = ttft_limit - ttft.base + c * ttft.beside
    discriminant = room * room - 4 * c * ttft.queue
    root = np.sqrt(larger(discriminant, 0.0))
    meets = (room > 0) & (discriminant >= 0) & (2 * c * (td + ttft.beside) <= room + root)
    return select(meets, larger(td, (room - root) / (2 * c) - ttft.beside), NO_LIMIT)


@formula
def rate(replica: Replica, rules: Rules, batch: Number, at: Round) -> Number:
    """Tokens/s of one data-parallel rank, b·pp/TPOT; 0 where infeasible."""
    s = round_seconds(at.decode, ttft_terms(replica, rules, at), rules.ttft_limit)
    tpot = tpot_seconds(replica.pp, at, s)
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
