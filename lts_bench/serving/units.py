"""The microbatches of ranks in lockstep: what one decodes, what it admits, what its prompts take."""

from __future__ import annotations

from math import inf, isnan

from lts_bench.cost.compiled import compiled
from lts_bench.serving.lanes import fill, gain, grow, join_filled
from lts_bench.serving.queues import Records
from lts_bench.serving.state import RUNNING, Record, Rules, Simulation


@compiled
def decode_rows(rules: Rules, lanes: Records, unit: int) -> tuple[int, float]:
    """(rows of the fullest rank, mean context of a row by the most context of a rank)."""
    most, context = 0, 0
    for lane in range(unit * rules.dp, (unit + 1) * rules.dp):
        most, context = max(most, lanes[lane].rows), max(context, lanes[lane].context)
    rows = most * rules.rows_each
    return rows, context / max(rows, 1)


@compiled
def grow_all(sim: Simulation, unit: int) -> tuple[bool, bool]:
    """Take the room of a decode step on all ranks: (whether any sequence decodes, whether any made way)."""
    rules, decodes, made_way = sim.rules, False, False
    for rank in range(rules.dp):
        lane = unit * rules.dp + rank
        if sim.lanes[lane].rows > 0:
            made_way = grow(sim, unit, lane, unit // rules.pp * rules.dp + rank) or made_way
        decodes = decodes or sim.lanes[lane].rows > 0
    return decodes, made_way


@compiled
def _admits_until(sim: Simulation, unit: int, now: float) -> float:
    """Requests that arrived by then are admitted.

    Ranks in lockstep prefill, in as many steps as it takes, what came before their last decode step ended, and decode
    before they turn to later prompts: a rank's prompt holds up all, so prompts are gathered. Coordinated ranks admit
    none while others decode until as many wait as there are ranks, or the last one has arrived.
    """
    rules, waiting, decodes = sim.rules, 0, False
    for rank in range(rules.dp):
        waiting += sim.ranks[unit // rules.pp * rules.dp + rank].waiting
        decodes = decodes or sim.lanes[unit * rules.dp + rank].rows > 0
    if not decodes:
        return now
    if rules.coordinated and waiting < rules.dp and now < sim.requests[-1].arrival_s:
        return -inf
    return now if rules.chunked or rules.dp == 1 else sim.units[unit].decoded_s


@compiled
def fill_all(sim: Simulation, unit: int, now: float) -> tuple[int, float, float, float, bool]:
    """Prompts of all ranks.

    Returns:
        Tokens of the fullest rank; how full the others are; attention as in ``fill``; whether requests wait that may be
        admitted after a decode step.
    """
    rules, fullest, together, heaviest, total, later = sim.rules, 0, 0, 0.0, 0.0, False
    admits_until = _admits_until(sim, unit, now)
    for rank in range(rules.dp):
        lane, queue = unit * rules.dp + rank, sim.ranks[unit // rules.pp * rules.dp + rank]
        if sim.lanes[lane].filled > 0 or queue.waiting > 0:
            part = fill(sim, lane, unit // rules.pp * rules.dp + rank, now, admits_until)
            fullest, together = max(fullest, part[0]), together + part[0]
            heaviest, total = max(heaviest, part[1]), max(total, part[2])
            later = later or (queue.waiting > 0 and -inf < admits_until < sim.requests[queue.tail].arrival_s)
    share = (together / fullest - 1) / (rules.dp - 1) if rules.dp > 1 and fullest > 0 else 0.0
    return fullest, share, heaviest, total, later


@compiled
def join_all(sim: Simulation, unit: int, now: float) -> None:
    """What is admitted joins those that decode: its KV cache is there."""
    for rank in range(sim.rules.dp):
        join_filled(sim, unit, unit * sim.rules.dp + rank, unit // sim.rules.pp * sim.rules.dp + rank, now)


@compiled
def give_first_tokens(sim: Simulation, unit: int, end: float) -> None:
    """Sequences that joined for the step that ends then have their first token from it."""
    for lane in range(unit * sim.rules.dp, (unit + 1) * sim.rules.dp):
        own = sim.lanes[lane]
        for slot in range(own.rows - own.fresh, own.rows):
            request = sim.sequences[RUNNING, lane, slot]
            if isnan(sim.requests[request].first_token_s):
                sim.requests[request].first_token_s = end
        own.fresh = 0


@compiled
def gain_tokens(rules: Rules, unit: Record, lanes: Records) -> None:
    """A decode step has given every running sequence of a ``UNIT`` its tokens; ``lanes`` are the unit's."""
    gained = gain(rules, unit.steps)
    unit.steps, unit.clock = unit.steps + 1, unit.clock + gained
    for lane in range(len(lanes)):
        lanes[lane].context += lanes[lane].rows * gained
