"""The compiled loop of a replay: units enter their replica's pipeline, their steps end, requests arrive in between."""

from __future__ import annotations

from math import inf

from lts_bench.cost.compiled import compiled
from lts_bench.serving.kv_cache import blocks_of, whole_tokens
from lts_bench.serving.lanes import NEVER, end_finished, gain, growth, join_filled
from lts_bench.serving.queues import Records, in_turn, least_loaded, push_back
from lts_bench.serving.state import FLYING, IDLE, NONE, READY, Record, Rules, Simulation
from lts_bench.serving.step_times import (
    ALL_STAGES,
    CONTEXTS,
    HEAVIEST,
    FloatArray,
    decode_seconds,
    interpolate,
    prefill_seconds,
)
from lts_bench.serving.units import decode_rows, fill_all, gain_tokens, give_first_tokens, grow_all, join_all


@compiled
def _launch(sim: Simulation, unit: int, now: float, until: float) -> None:
    """Let a ready unit's next step into the pipeline, or leave it idle where there is nothing to do."""
    rules, own, replica = sim.rules, sim.units[unit], unit // sim.rules.pp
    last_arrival = sim.requests[-1].arrival_s
    decodes, made_way = grow_all(sim, unit) if rules.chunked else (False, False)
    tokens, share, heaviest, total, later = fill_all(sim, unit, now)
    if rules.prefilled and tokens > 0:
        join_all(sim, unit, now)
        tokens, heaviest, total = 0, 0.0, 0.0
    if tokens == 0 and not rules.chunked:
        decodes, made_way = grow_all(sim, unit)
    if tokens == 0 and not decodes:
        own.state = IDLE
        return
    rows = 0
    if decodes:
        rows, context = decode_rows(rules, sim.lanes, unit)
        heaviest += decode_seconds(sim.times, HEAVIEST, rows, context)
        total += decode_seconds(sim.times, ALL_STAGES, rows, context)
    if tokens > 0:
        heaviest += prefill_seconds(sim.times, HEAVIEST, tokens, rows, share)
        total += prefill_seconds(sim.times, ALL_STAGES, tokens, rows, share)
    pipeline = sim.pipelines[replica]
    own.decodes, own.state = decodes, FLYING
    # In order: the last stage begins when it has done the step before.
    own.time = max(now + total, pipeline.last_end_s + heaviest)
    if rules.prefilled:
        give_first_tokens(sim, unit, own.time)
    pipeline.free_s, pipeline.last_end_s = now + heaviest, own.time
    _begin_work(pipeline, sim.periods, now)
    if tokens == 0 and rules.pp == 1 and not (made_way or later):
        _coast(sim, unit, min(until, last_arrival) if rules.coordinated and now < last_arrival else until)


@compiled
def _coast(sim: Simulation, unit: int, until: float) -> None:
    """Run through decode steps that nothing happens between: no arrival, no end, no lack of room.

    Arrays are looked up once: in the innermost loop a look-up in ``sim`` costs as much as the arithmetic.
    """
    rules, own, first = sim.rules, sim.units[unit], unit * sim.rules.dp
    lanes, ranks, phases = sim.lanes, sim.ranks, sim.phases
    rows, _ = decode_rows(rules, sim.lanes, unit)
    contexts, seconds = sim.times.grid[CONTEXTS], sim.times.decode[ALL_STAGES, rows]
    while own.time < until:
        gained = gain(rules, own.steps)
        if own.clock + gained >= own.next_end:
            break
        own.clock, own.steps, most, lacks = own.clock + gained, own.steps + 1, 0, False
        for lane in range(first, first + rules.dp):
            lanes[lane].context += lanes[lane].rows * gained
            most = max(most, lanes[lane].context)
            lanes[lane].growth = growth(rules, phases, lane, own.clock, own.steps)
            lacks = lacks or lanes[lane].growth > ranks[lane].free
        if lacks:
            own.decoded_s = own.time
            _land(own, sim.pipelines[unit], sim.periods)
            break
        for lane in range(first, first + rules.dp):
            ranks[lane].free -= lanes[lane].growth
            ranks[lane].least = min(ranks[lane].least, ranks[lane].free + ranks[lane].unused * rules.reuse_blocks)
        own.time += interpolate(contexts, seconds, most / rows)
    sim.pipelines[unit].free_s = sim.pipelines[unit].last_end_s = own.time


@compiled
def _begin_work(pipeline: Record, periods: FloatArray, now: float) -> None:
    """Count a unit into a ``PIPELINE``; its period of work goes on where the last step ends just now."""
    if pipeline.flying == 0 and (pipeline.period == 0 or periods[pipeline.period, 1] < now):
        periods[0, 0] += 1
        pipeline.period = int(periods[0, 0])
        periods[pipeline.period, 0] = now
    pipeline.flying += 1


@compiled
def _land(unit: Record, pipeline: Record, periods: FloatArray) -> None:
    """A ``UNIT`` leaves its ``PIPELINE`` and is ready for its next step."""
    unit.state = READY
    pipeline.flying -= 1
    periods[pipeline.period, 1] = unit.time


@compiled
def _complete(sim: Simulation, unit: int) -> None:
    """A unit's step ends: sequences gain tokens and end, prompts that are done join."""
    rules, own, now = sim.rules, sim.units[unit], sim.units[unit].time
    replica, first, waiting = unit // rules.pp, unit // rules.pp * rules.dp, False
    if own.decodes:
        own.decoded_s = now
        gain_tokens(rules, own, sim.lanes[unit * rules.dp : (unit + 1) * rules.dp])
        if own.clock >= own.next_end:
            own.next_end = NEVER
            for rank in range(rules.dp):
                end = end_finished(sim, unit, unit * rules.dp + rank, first + rank, now)
                own.next_end = min(own.next_end, end)
    for rank in range(rules.dp):
        if sim.lanes[unit * rules.dp + rank].filled > 0:
            join_filled(sim, unit, unit * rules.dp + rank, first + rank, now)
        waiting = waiting or sim.ranks[first + rank].waiting > 0
    _land(own, sim.pipelines[replica], sim.periods)
    if waiting:
        _wake(rules, sim.units, replica, now)


@compiled
def _wake(rules: Rules, units: Records, replica: int, now: float) -> None:
    """Idle units of a replica look for work again."""
    for unit in range(replica * rules.pp, (replica + 1) * rules.pp):
        if units[unit].state == IDLE:
            units[unit].state, units[unit].time = READY, now


@compiled
def _first(rules: Rules, units: Records, replica: int, state: int) -> int:
    """The unit of a replica in a state whose time comes first, or ``NONE``."""
    first = NONE
    for unit in range(replica * rules.pp, (replica + 1) * rules.pp):
        if units[unit].state == state and (first == NONE or units[unit].time < units[first].time):
            first = unit
    return first


@compiled
def _advance(sim: Simulation, replica: int, until: float) -> None:
    """Let a replica work: steps end up to ``until``, included, and begin before it."""
    rules, units, pipeline = sim.rules, sim.units, sim.pipelines[replica]
    while True:
        ready, flying = _first(rules, units, replica, READY), _first(rules, units, replica, FLYING)
        begins = inf if ready == NONE else max(units[ready].time, pipeline.free_s)
        ends = inf if flying == NONE else units[flying].time
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
        if not last and blocks_of(whole_tokens(rules, requests[request]), rules.block_tokens) > rules.kv_blocks:
            continue
        now = inf if last else requests[request].arrival_s
        rank = in_turn(rules, turn)
        everywhere = last or rules.least_loaded
        for replica in range(rules.replicas):
            if everywhere or replica == rank // rules.dp:
                _advance(sim, replica, now)
        if not last:
            if rules.least_loaded:
                rank = least_loaded(sim.ranks)
            turn += 1
            requests[request].rank = rank
            push_back(requests, sim.ranks[rank], request)
            _wake(rules, sim.units, rank // rules.dp, now)
