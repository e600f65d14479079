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


class Pipeline(NamedTuple):
    """One strategy's replica, all that its operating points depend on.

    Attributes:
        batches: (rungs,) the ladder.
        decode: (rungs,) td, one token for everybody, seconds.
        waits: (rungs,) w.
        heaviest_prefill: s_p.
        prefill: T_p.
        stages: (distinct stages, 3) bytes: weights, KV of one sequence in the mean, KV of one whole sequence.
        buffers: bytes beside them.
    """

    batches: FloatArray
    decode: FloatArray
    waits: FloatArray
    heaviest_prefill: float
    prefill: float
    stages: FloatArray
    buffers: float
    pp: float
    dp: float


@compiled
def memory_bytes(stages: FloatArray, sequences: float, buffers: float) -> float:
    """Bytes of the fullest device holding ``sequences`` = b·pp of a rank; one whole sequence must fit."""
    most = 0.0
    for stage in range(stages.shape[0]):
        most = max(most, stages[stage, 0] + max(sequences * stages[stage, 1], stages[stage, 2]))
    return most + buffers


@compiled
def ttft_terms(line: Pipeline, rules: Rules, wait: float) -> tuple[float, float, float]:
    """(T, c, g·w·s_p²/2): TTFT = T + c·s + queue/s."""
    c, base = rules.quantile / line.pp, line.prefill
    if rules.coordinated and line.dp > 1:
        c += (line.dp - 1) / (2 * line.dp * wait)
        base += (line.dp - 1) * line.heaviest_prefill / (2 * line.dp)
    return base, c, rules.queue_factor * wait * line.heaviest_prefill * line.heaviest_prefill / 2


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
def step(line: Pipeline, batch: float, rung: int) -> tuple[float, float]:
    """(td, w) at a batch size from rung ``rung`` up to the next, linear in between."""
    td, wait, low = line.decode[rung], line.waits[rung], line.batches[rung]
    if batch > low:
        share = (batch - low) / (line.batches[rung + 1] - low)
        td += share * (line.decode[rung + 1] - td)
        wait += share * (line.waits[rung + 1] - wait)
    return td, wait


@compiled
def rate(line: Pipeline, rules: Rules, batch: float, rung: int) -> tuple[float, float]:
    """(tokens/s of a rank and microbatch's share of the pipeline, s); (0, 0) where infeasible."""
    if memory_bytes(line.stages, batch * line.pp, line.buffers) > rules.memory_limit:
        return 0.0, 0.0
    td, wait = step(line, batch, rung)
    base, c, queue = ttft_terms(line, rules, wait)
    s = round_seconds(td, base, c, queue, rules.ttft_limit)
    tpot = s + wait * line.heaviest_prefill
    if s < 0 or (rules.tpot_limit > 0 and tpot > rules.tpot_limit):
        return 0.0, 0.0
    return batch * line.pp / tpot, s


@compiled
def best_rung(line: Pipeline, rules: Rules) -> tuple[float, int]:
    """(rate, rung) of the best rung of the ladder; ties go to the smallest, a rate of 0 means none is feasible."""
    best, at = 0.0, 0
    for rung in range(len(line.batches)):
        if memory_bytes(line.stages, line.batches[rung] * line.pp, line.buffers) > rules.memory_limit:
            break
        found, _ = rate(line, rules, line.batches[rung], rung)
        if found > best:
            best, at = found, rung
    return best, at


@compiled
def climb(line: Pipeline, rules: Rules, low: float, high: float, rung: int) -> float:
    """The batch size in [low, high], all above rung ``rung``, at which the rate stops rising: bisection on its slope."""
    while low < high:
        middle = floor((low + high) / 2)
        if rate(line, rules, middle + 1, rung)[0] > rate(line, rules, middle, rung)[0]:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def best_batch(line: Pipeline, rules: Rules) -> tuple[float, float, int]:
    """(rate, b, rung below) of the best point: the best rung, refined between its neighbours; ties: the smallest b."""
    best, at = best_rung(line, rules)
    batch = line.batches[at]
    if best <= 0.0:
        return 0.0, batch, at
    if at + 1 < len(line.batches) and line.batches[at + 1] > batch + 1 and rate(line, rules, batch + 1, at)[0] > best:
        found = climb(line, rules, batch + 1, line.batches[at + 1] - 1, at)
        return rate(line, rules, found, at)[0], found, at
    if at > 0 and batch - 1 > line.batches[at - 1] and rate(line, rules, batch - 1, at - 1)[0] >= best:
        found = climb(line, rules, line.batches[at - 1] + 1, batch - 1, at - 1)
        return rate(line, rules, found, at - 1)[0], found, at - 1
    return best, batch, at


@compiled
def excess(value: float, limit: float) -> float:
    """Relative violation of a limit."""
    return 0.0 if limit <= 0 or value <= limit else value / limit - 1


@compiled
def point(line: Pipeline, rules: Rules, batch: float, rung: int, s: float) -> tuple[float, float, float]:
    """(TTFT, TPOT, bytes of the fullest device) at a batch size and round time; s < 0 stands for td."""
    td, wait = step(line, batch, rung)
    base, c, queue = ttft_terms(line, rules, wait)
    s = td if s < 0 else s
    memory = memory_bytes(line.stages, batch * line.pp, line.buffers)
    return base + c * s + queue / s, s + wait * line.heaviest_prefill, memory


@compiled
def least_violation(line: Pipeline, rules: Rules) -> tuple[int, float, float, float]:
    """(rung, memory, TTFT, TPOT excess) at the rung with the least sum, TTFT taken at s = td; ties: the smallest."""
    best, at, over_memory, over_ttft, over_tpot = inf, 0, 0.0, 0.0, 0.0
    for rung in range(len(line.batches)):
        ttft, tpot, memory = point(line, rules, line.batches[rung], rung, -1.0)
        memory, tpot = excess(memory, rules.memory_limit), excess(tpot, rules.tpot_limit)
        ttft = excess(ttft, rules.ttft_limit)
        if memory + ttft + tpot < best:
            best, at = memory + ttft + tpot, rung
            over_memory, over_ttft, over_tpot = memory, ttft, tpot
        if memory + tpot >= best:
            break
    return at, over_memory, over_ttft, over_tpot
