"""Sequences of a microbatch on one rank: their prompts fill, they decode, end, or make way."""

from __future__ import annotations

from math import floor, isnan

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.serving.kv_cache import admit, available, release, share, take
from lts_bench.serving.queues import pop, push_front
from lts_bench.serving.state import FILLING, RUNNING, Record, Rules, Simulation
from lts_bench.serving.step_times import ALL_STAGES, HEAVIEST, StepTimes, attention_seconds

NEVER = int(np.iinfo(np.int64).max)
"""A clock that no unit reaches."""


@compiled
def gain(rules: Rules, steps: int) -> int:
    """Tokens that a sequence gains in the decode step after ``steps`` of them: the accepted ones in the mean."""
    if rules.rows_each == 1:
        return 1
    return floor((steps + 1) * rules.accepted_tokens) - floor(steps * rules.accepted_tokens)


@compiled
def kv_tokens(request: Record, clock: int) -> int:
    """KV of a running ``REQUEST``: its prompt, and all of its answer but the last token."""
    tokens: int = request.prefilled + clock - request.joined
    return tokens


@compiled
def end_clock(request: Record) -> int:
    """The clock at which a running ``REQUEST`` has its whole answer."""
    clock: int = request.joined + request.output - request.generated
    return clock


@compiled
def growth(rules: Rules, phases: NDArray[np.int64], lane: int, clock: int, steps: int) -> int:
    """Blocks that the next decode step of a lane takes."""
    needed = 0
    if not rules.reserve:
        for token in range(gain(rules, steps)):
            needed += phases[lane, (clock + token) % rules.block_tokens]
    return needed


@compiled
def _count(rules: Rules, lane: Record, phases: NDArray[np.int64], tokens: int, clock: int, change: int) -> None:
    """Count a sequence with KV of ``tokens`` in or out of its lane's context and ``phases`` (block_tokens,)."""
    lane.context += change * (tokens + 1)
    phases[(clock - tokens) % rules.block_tokens] += change


@compiled
def _make_way(sim: Simulation, unit: int, lane: int, rank: int) -> None:
    """Put the sequence that was admitted last back to the head of the queue."""
    own, clock = sim.lanes[lane], sim.units[unit].clock
    if own.filled > 0:
        own.filled -= 1
        request = sim.sequences[FILLING, lane, own.filled]
        tokens, gained = sim.requests[request].prompt + sim.requests[request].generated, 0
    else:
        own.rows -= 1
        request = sim.sequences[RUNNING, lane, own.rows]
        tokens, gained = kv_tokens(sim.requests[request], clock), clock - sim.requests[request].joined
        own.fresh = max(own.fresh - 1, 0)
        _count(sim.rules, own, sim.phases[lane], tokens, clock, -1)
    release(sim, rank, request, tokens)
    sim.requests[request].generated += gained
    sim.requests[request].preempted += 1
    sim.ranks[rank].serving -= 1
    push_front(sim.requests, sim.ranks[rank], request)


@compiled
def grow(sim: Simulation, unit: int, lane: int, rank: int) -> bool:
    """Take the blocks of the next decode step; where there are too few, sequences make way: returns whether any did."""
    own, made_way = sim.units[unit], False
    while True:
        needed = growth(sim.rules, sim.phases, lane, own.clock, own.steps)
        if needed <= available(sim.rules, sim.ranks[rank]):
            break
        _make_way(sim, unit, lane, rank)
        made_way = True
    take(sim, rank, needed)
    return made_way


@compiled
def _fill_part(rules: Rules, times: StepTimes, request: Record, left: int) -> tuple[int, float, float]:
    """Compute at most ``left`` tokens of a prompt: (tokens, attention of the heaviest stage, of all stages)."""
    begin = request.prefilled
    request.prefilled = min(request.prompt + request.generated, begin + left)
    heaviest = attention_seconds(times, HEAVIEST, begin, request.prefilled)
    total = heaviest if rules.pp == 1 else attention_seconds(times, ALL_STAGES, begin, request.prefilled)
    return request.prefilled - begin, heaviest, total


@compiled
def most_sequences(rules: Rules, rank: Record) -> int:
    """Sequences that a lane may hold: an even part of all, and no more than the policy allows."""
    most: int = min((rank.serving + rank.waiting + rules.pp - 1) // rules.pp, rules.max_sequences)
    return most


@compiled
def fill(sim: Simulation, lane: int, rank: int, now: float, admits_until: float) -> tuple[int, float, float]:
    """Go on with prompts and admit those that arrived by ``admits_until``.

    Returns:
        Tokens; their attention in the heaviest stage, and in all stages.
    """
    rules, own, queue, filling = sim.rules, sim.lanes[lane], sim.ranks[rank], sim.sequences[FILLING, lane]
    left = rules.step_tokens - (own.rows * rules.rows_each if rules.chunked else 0)
    tokens, heaviest, total = 0, 0.0, 0.0
    for slot in range(own.filled):
        if tokens < left:
            part = _fill_part(rules, sim.times, sim.requests[filling[slot]], left - tokens)
            tokens, heaviest, total = tokens + part[0], heaviest + part[1], total + part[2]
    most = most_sequences(rules, queue)
    while queue.waiting > 0 and tokens < left and own.rows + own.filled < most:
        one, request = sim.requests[queue.head], queue.head
        whole = one.prompt + one.generated
        if one.arrival_s > admits_until or not admit(sim, rank, request):
            break
        if not rules.chunked and tokens > 0 and tokens + whole - one.prefilled > left:
            release(sim, rank, request, whole)
            break
        pop(sim.requests, queue)
        filling[own.filled] = request
        own.filled += 1
        queue.serving += 1
        if isnan(one.admitted_s):
            one.admitted_s, one.reused = now, one.prefilled
        part = _fill_part(rules, sim.times, one, left - tokens if rules.chunked else whole)
        tokens, heaviest, total = tokens + part[0], heaviest + part[1], total + part[2]
    return tokens, heaviest, total


@compiled
def _leave(sim: Simulation, rank: int, request: int, tokens: int, now: float) -> None:
    """A request has its whole answer."""
    release(sim, rank, request, tokens)
    sim.ranks[rank].serving -= 1
    sim.requests[request].finish_s = now


@compiled
def join_filled(sim: Simulation, unit: int, lane: int, rank: int, now: float) -> None:
    """Prompts that are done give a token and join those that decode."""
    own, kept, filling = sim.lanes[lane], 0, sim.sequences[FILLING, lane]
    for slot in range(own.filled):
        request = filling[slot]
        one = sim.requests[request]
        if one.prefilled < one.prompt + one.generated:
            filling[kept] = request
            kept += 1
            continue
        share(sim, rank, request)
        if sim.rules.prefilled:
            own.fresh += 1
        else:
            one.generated += 1
            if isnan(one.first_token_s):
                one.first_token_s = now
        if one.generated == one.output:
            _leave(sim, rank, request, one.prefilled, now)
            continue
        one.joined = sim.units[unit].clock
        sim.sequences[RUNNING, lane, own.rows] = request
        own.rows += 1
        _count(sim.rules, own, sim.phases[lane], one.prefilled, one.joined, 1)
        sim.units[unit].next_end = min(sim.units[unit].next_end, end_clock(one))
    own.filled = kept


@compiled
def end_finished(sim: Simulation, unit: int, lane: int, rank: int, now: float) -> int:
    """Let go the sequences that have their whole answers; returns the clock at which the next one of the lane ends."""
    own, requests, running = sim.lanes[lane], sim.requests, sim.sequences[RUNNING, lane]
    clock, next_end, kept = sim.units[unit].clock, NEVER, 0
    for slot in range(own.rows):
        request = running[slot]
        end = end_clock(requests[request])
        if end > clock:
            running[kept] = request
            kept += 1
            next_end = min(next_end, end)
            continue
        tokens = kv_tokens(requests[request], clock)
        _count(sim.rules, own, sim.phases[lane], tokens, clock, -1)
        _leave(sim, rank, request, tokens, now)
    own.rows = kept
    return next_end
