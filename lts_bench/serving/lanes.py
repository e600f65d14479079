"""Sequences of a microbatch on one rank: their prompts fill, they decode, end, or make way."""

from __future__ import annotations

from math import floor, isnan

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.serving.kv_cache import admit, available, release, share, take
from lts_bench.serving.queues import pop, push_front
from lts_bench.serving.state import FILLING, RUNNING, Rules, Simulation
from lts_bench.serving.step_times import ALL_STAGES, HEAVIEST, attention_seconds

NEVER = int(np.iinfo(np.int64).max)
"""A clock that no unit reaches."""


@compiled
def gain(rules: Rules, steps: int) -> int:
    """Tokens that a sequence gains in the decode step after ``steps`` of them: the accepted ones in the mean."""
    if rules.rows_each == 1:
        return 1
    return floor((steps + 1) * rules.accepted_tokens) - floor(steps * rules.accepted_tokens)


@compiled
def kv_tokens(sim: Simulation, unit: int, request: int) -> int:
    """KV of a running request: its prompt, and all of its answer but the last token."""
    return sim.requests[request].prefilled + sim.units[unit].clock - sim.requests[request].joined


@compiled
def end_clock(sim: Simulation, request: int) -> int:
    """The clock at which a running request has its whole answer."""
    own = sim.requests[request]
    return own.joined + own.output - own.generated


@compiled
def growth(rules: Rules, phases: NDArray[np.int64], clock: int, steps: int) -> int:
    """Blocks that the next decode step of a lane takes; (block_tokens,) ``phases`` are the lane's."""
    needed = 0
    if not rules.reserve:
        for token in range(gain(rules, steps)):
            needed += phases[(clock + token) % rules.block_tokens]
    return needed


@compiled
def _count(sim: Simulation, unit: int, lane: int, request: int, change: int) -> None:
    """Count a running request in or out of its lane's context and blocks."""
    tokens = kv_tokens(sim, unit, request)
    sim.lanes[lane].context += change * (tokens + 1)
    sim.phases[lane, (sim.units[unit].clock - tokens) % sim.rules.block_tokens] += change


@compiled
def _make_way(sim: Simulation, unit: int, lane: int, rank: int) -> None:
    """Put the sequence that was admitted last back to the head of the queue."""
    own = sim.lanes[lane]
    if own.filled > 0:
        own.filled -= 1
        request = sim.sequences[FILLING, lane, own.filled]
        release(sim, rank, request, sim.requests[request].prompt + sim.requests[request].generated)
    else:
        own.rows -= 1
        request = sim.sequences[RUNNING, lane, own.rows]
        _count(sim, unit, lane, request, -1)
        release(sim, rank, request, kv_tokens(sim, unit, request))
        sim.requests[request].generated += sim.units[unit].clock - sim.requests[request].joined
    sim.requests[request].preempted += 1
    sim.ranks[rank].serving -= 1
    push_front(sim, rank, request)


@compiled
def grow(sim: Simulation, unit: int, lane: int, rank: int) -> None:
    """Take the blocks of the next decode step; where there are too few, sequences make way."""
    own = sim.units[unit]
    while True:
        needed = growth(sim.rules, sim.phases[lane], own.clock, own.steps)
        if needed <= available(sim, rank):
            break
        _make_way(sim, unit, lane, rank)
    take(sim, rank, needed)


@compiled
def _fill_part(sim: Simulation, request: int, left: int) -> tuple[int, float, float]:
    """Compute at most ``left`` tokens of a prompt: (tokens, attention of the heaviest stage, of all stages)."""
    own = sim.requests[request]
    begin = own.prefilled
    own.prefilled = min(own.prompt + own.generated, begin + left)
    heaviest = attention_seconds(sim.times, HEAVIEST, begin, own.prefilled)
    total = heaviest if sim.rules.pp == 1 else attention_seconds(sim.times, ALL_STAGES, begin, own.prefilled)
    return own.prefilled - begin, heaviest, total


@compiled
def _enter(sim: Simulation, lane: int, rank: int, request: int, now: float) -> None:
    """Take the head of the queue into a lane."""
    own = sim.requests[request]
    pop(sim, rank)
    sim.sequences[FILLING, lane, sim.lanes[lane].filled] = request
    sim.lanes[lane].filled += 1
    sim.ranks[rank].serving += 1
    if isnan(own.admitted_s):
        own.admitted_s, own.reused = now, own.prefilled


@compiled
def most_sequences(sim: Simulation, rank: int) -> int:
    """Sequences that a lane may hold: an even part of all, and no more than the policy allows."""
    own, rules = sim.ranks[rank], sim.rules
    return min((own.serving + own.waiting + rules.pp - 1) // rules.pp, rules.max_sequences)


@compiled
def fill(sim: Simulation, lane: int, rank: int, now: float, admits: bool) -> tuple[int, float, float]:
    """Go on with prompts and admit more of them: (tokens, attention of the heaviest stage, of all stages)."""
    rules, own, queue = sim.rules, sim.lanes[lane], sim.ranks[rank]
    left = rules.step_tokens - (own.rows * rules.rows_each if rules.chunked else 0)
    tokens, heaviest, total = 0, 0.0, 0.0
    for slot in range(own.filled):
        if tokens < left:
            part = _fill_part(sim, sim.sequences[FILLING, lane, slot], left - tokens)
            tokens, heaviest, total = tokens + part[0], heaviest + part[1], total + part[2]
    most = most_sequences(sim, rank)
    while admits and queue.waiting > 0 and tokens < left and own.rows + own.filled < most:
        request = queue.head
        whole = sim.requests[request].prompt + sim.requests[request].generated
        if not admit(sim, rank, request):
            break
        if not rules.chunked and tokens > 0 and tokens + whole - sim.requests[request].prefilled > left:
            release(sim, rank, request, whole)
            break
        _enter(sim, lane, rank, request, now)
        part = _fill_part(sim, request, left - tokens if rules.chunked else whole)
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
    own, kept = sim.lanes[lane], 0
    for slot in range(own.filled):
        request = sim.sequences[FILLING, lane, slot]
        one = sim.requests[request]
        if one.prefilled < one.prompt + one.generated:
            sim.sequences[FILLING, lane, kept] = request
            kept += 1
            continue
        share(sim, rank, request)
        one.generated += 1
        if isnan(one.first_token_s):
            one.first_token_s = now
        if one.generated == one.output:
            _leave(sim, rank, request, one.prefilled, now)
            continue
        one.joined = sim.units[unit].clock
        sim.sequences[RUNNING, lane, own.rows] = request
        own.rows += 1
        _count(sim, unit, lane, request, 1)
        sim.units[unit].next_end = min(sim.units[unit].next_end, end_clock(sim, request))
    own.filled = kept


@compiled
def end_finished(sim: Simulation, unit: int, lane: int, rank: int, now: float) -> int:
    """Let go the sequences that have their whole answers; returns the clock at which the next one of the lane ends."""
    next_end, kept = NEVER, 0
    for slot in range(sim.lanes[lane].rows):
        request = sim.sequences[RUNNING, lane, slot]
        end = end_clock(sim, request)
        if end > sim.units[unit].clock:
            sim.sequences[RUNNING, lane, kept] = request
            kept += 1
            next_end = min(next_end, end)
            continue
        _count(sim, unit, lane, request, -1)
        _leave(sim, rank, request, kv_tokens(sim, unit, request), now)
    sim.lanes[lane].rows = kept
    return next_end
