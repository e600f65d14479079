"""The compiled loop of a replay: units enter their replica's pipeline, their steps end, requests arrive in between."""

from __future__ import annotations

from math import inf

from lts_bench.cost.compiled import compiled
from lts_bench.serving.kv_cache import blocks_of, whole_tokens
from lts_bench.serving.lanes import NEVER, end_finished, fill, gain, grow, growth, join_filled
from lts_bench.serving.queues import push_back, route
from lts_bench.serving.state import FLYING, IDLE, NONE, READY, Simulation
from lts_bench.serving.step_times import ALL_STAGES, HEAVIEST, decode_seconds, interpolate, prefill_seconds


@compiled
def _decode_rows(sim: Simulation, unit: int) -> tuple[int, float]:
    """(rows of the fullest rank, mean context of a row by the most context of a rank)."""
    most, context = 0, 0
    for lane in range(unit * sim.rules.dp, (unit + 1) * sim.rules.dp):
        most, context = max(most, sim.lanes[lane].rows), max(context, sim.lanes[lane].context)
    rows = most * sim.rules.rows_each
    return rows, context / max(rows, 1)


@compiled
def _grow_all(sim: Simulation, unit: int) -> bool:
    """Take the room of a decode step on all ranks; False where nothing is left that decodes."""
    rules, decodes = sim.rules, False
    for rank in range(rules.dp):
        lane = unit * rules.dp + rank
        grow(sim, unit, lane, unit // rules.pp * rules.dp + rank)
        decodes = decodes or sim.lanes[lane].rows > 0
    return decodes


@compiled
def _admits(sim: Simulation, unit: int, more: bool) -> bool:
    """Whether prompts are admitted now: coordinated ranks wait while others decode and ``more`` may arrive."""
    rules = sim.rules
    if not rules.coordinated or not more:
        return True
    first, waiting, decodes = unit // rules.pp * rules.dp, 0, False
    for rank in range(rules.dp):
        waiting += sim.ranks[first + rank].waiting
        decodes = decodes or sim.lanes[unit * rules.dp + rank].rows > 0
    return waiting >= rules.dp or not decodes


@compiled
def _fill_all(sim: Simulation, unit: int, now: float, admits: bool) -> tuple[int, float, float, float]:
    """Prompts of all ranks: (tokens of the fullest rank, how full the others are, attention as in ``fill``)."""
    rules, fullest, together, heaviest, total = sim.rules, 0, 0, 0.0, 0.0
    for rank in range(rules.dp):
        part = fill(sim, unit * rules.dp + rank, unit // rules.pp * rules.dp + rank, now, admits)
        fullest, together = max(fullest, part[0]), together + part[0]
        heaviest, total = max(heaviest, part[1]), max(total, part[2])
    share = (together / fullest - 1) / (rules.dp - 1) if rules.dp > 1 and fullest > 0 else 0.0
    return fullest, share, heaviest, total


@compiled
def _launch(sim: Simulation, unit: int, now: float, until: float) -> None:
    """Let a ready unit's next step into the pipeline, or leave it idle where there is nothing to do."""
    rules, own, replica = sim.rules, sim.units[unit], unit // sim.rules.pp
    admits = _admits(sim, unit, until < inf)
    decodes = _grow_all(sim, unit) if rules.chunked else False
    tokens, share, heaviest, total = _fill_all(sim, unit, now, admits)
    if tokens == 0 and not rules.chunked:
        decodes = _grow_all(sim, unit)
    if tokens == 0 and not decodes:
        own.state = IDLE
        return
    rows = 0
    if decodes:
        rows, context = _decode_rows(sim, unit)
        heaviest += decode_seconds(sim.times, HEAVIEST, rows, context)
        total += decode_seconds(sim.times, ALL_STAGES, rows, context)
    if tokens > 0:
        heaviest += prefill_seconds(sim.times, HEAVIEST, tokens, rows, share)
        total += prefill_seconds(sim.times, ALL_STAGES, tokens, rows, share)
    own.decodes, own.state, own.time = decodes, FLYING, now + total
    sim.pipelines[replica].free_s = now + heaviest
    _begin_work(sim, replica, now)
    if tokens == 0 and rules.pp == 1:
        _coast(sim, unit, until)


@compiled
def _coast(sim: Simulation, unit: int, until: float) -> None:
    """Run through decode steps that nothing happens between: no arrival, no end, no lack of room.

    Arrays are looked up once: in the innermost loop a look-up in ``sim`` costs as much as the arithmetic.
    """
    rules, own, first = sim.rules, sim.units[unit], unit * sim.rules.dp
    lanes, ranks, phases = sim.lanes, sim.ranks, sim.phases
    rows, _ = _decode_rows(sim, unit)
    contexts, seconds = sim.times.contexts, sim.times.decode[ALL_STAGES, rows]
    while own.time < until:
        gained = gain(rules, own.steps)
        if own.clock + gained >= own.next_end:
            break
        own.clock, own.steps, most, lacks = own.clock + gained, own.steps + 1, 0, False
        for lane in range(first, first + rules.dp):
            lanes[lane].context += lanes[lane].rows * gained
            most = max(most, lanes[lane].context)
            lanes[lane].growth = growth(rules, phases[lane], own.clock, own.steps)
            lacks = lacks or lanes[lane].growth > ranks[lane].free
        if lacks:
            _land(sim, unit)
            break
        for lane in range(first, first + rules.dp):
            ranks[lane].free -= lanes[lane].growth
            ranks[lane].least = min(ranks[lane].least, ranks[lane].free + ranks[lane].unused * rules.reuse_blocks)
        own.time += interpolate(contexts, seconds, most / rows)
    sim.pipelines[unit].free_s = own.time


@compiled
def _gain_tokens(sim: Simulation, unit: int) -> None:
    """A decode step has given every running sequence its tokens."""
    gained = gain(sim.rules, sim.units[unit].steps)
    sim.units[unit].steps += 1
    sim.units[unit].clock += gained
    for lane in range(unit * sim.rules.dp, (unit + 1) * sim.rules.dp):
        sim.lanes[lane].context += sim.lanes[lane].rows * gained


@compiled
def _begin_work(sim: Simulation, replica: int, now: float) -> None:
    """Count a unit into the pipeline; the replica's period of work goes on where the last step ends just now."""
    own = sim.pipelines[replica]
    if own.flying == 0 and (own.period == 0 or sim.periods[own.period, 1] < now):
        sim.periods[0, 0] += 1
        own.period = int(sim.periods[0, 0])
        sim.periods[own.period, 0] = now
    own.flying += 1


@compiled
def _land(sim: Simulation, unit: int) -> None:
    """A unit leaves the pipeline and is ready for its next step."""
    own = sim.pipelines[unit // sim.rules.pp]
    sim.units[unit].state = READY
    own.flying -= 1
    sim.periods[own.period, 1] = sim.units[unit].time


@compiled
def _complete(sim: Simulation, unit: int) -> None:
    """A unit's step ends: sequences gain tokens and end, prompts that are done join."""
    rules, own, now = sim.rules, sim.units[unit], sim.units[unit].time
    replica, first, waiting = unit // rules.pp, unit // rules.pp * rules.dp, False
    if own.decodes:
        _gain_tokens(sim, unit)
        if own.clock >= own.next_end:
            own.next_end = NEVER
            for rank in range(rules.dp):
                end = end_finished(sim, unit, unit * rules.dp + rank, first + rank, now)
                own.next_end = min(own.next_end, end)
    for rank in range(rules.dp):
        join_filled(sim, unit, unit * rules.dp + rank, first + rank, now)
        waiting = waiting or sim.ranks[first + rank].waiting > 0
    _land(sim, unit)
    if waiting:
        _wake(sim, replica, now)


@compiled
def _wake(sim: Simulation, replica: int, now: float) -> None:
    """Idle units of a replica look for work again."""
    for unit in range(replica * sim.rules.pp, (replica + 1) * sim.rules.pp):
        if sim.units[unit].state == IDLE:
            sim.units[unit].state, sim.units[unit].time = READY, now


@compiled
def _first(sim: Simulation, replica: int, state: int) -> int:
    """The unit of a replica in a state whose time comes first, or ``NONE``."""
    first = NONE
    for unit in range(replica * sim.rules.pp, (replica + 1) * sim.rules.pp):
        if sim.units[unit].state == state and (first == NONE or sim.units[unit].time < sim.units[first].time):
            first = unit
    return first


@compiled
def _advance(sim: Simulation, replica: int, until: float) -> None:
    """Let a replica work: steps end up to ``until``, included, and begin before it."""
    while True:
        ready, flying = _first(sim, replica, READY), _first(sim, replica, FLYING)
        begins = inf if ready == NONE else max(sim.units[ready].time, sim.pipelines[replica].free_s)
        ends = inf if flying == NONE else sim.units[flying].time
        if ends < inf and ends <= min(begins, until):
            _complete(sim, flying)
        elif begins < min(ends, until):
            _launch(sim, ready, begins, until)
        else:
            return


@compiled
def run(sim: Simulation) -> None:
    """Replay all requests; one that the KV cache can never hold is not admitted and keeps NaN for its times."""
    rules, requests, turn = sim.rules, sim.requests, 0
    for request in range(len(requests) + 1):
        last = request == len(requests)
        if not last and blocks_of(whole_tokens(sim, request), rules.block_tokens) > rules.kv_blocks:
            continue
        now = inf if last else requests[request].arrival_s
        first, end = 0, rules.replicas
        if not (last or rules.least_loaded):
            first = route(sim, turn) // rules.dp
            end = first + 1
        for replica in range(first, end):
            _advance(sim, replica, now)
        if not last:
            rank = route(sim, turn)
            turn += 1
            push_back(sim, rank, request)
            _wake(sim, rank // rules.dp, now)
