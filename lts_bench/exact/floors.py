"""Least step times and bytes under every degrees, each phase by itself: bounds that need no search.

Given the layouts of the residual stream, a model falls into parts that share no other variable. A part's minima depend
on the degrees only through the mesh and, for routed experts, the expert ranks, so that few are worked out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import BUFFER
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.program import FloatArray, IntArray, Program, Rows
from lts_bench.cost.steady import Replica, Round, sequences_held
from lts_bench.exact.bounds import SHORTEST, Ends, highest_rate
from lts_bench.exact.factors import Factors, Scope, Terms, all_scopes
from lts_bench.exact.kernels import add_strips
from lts_bench.exact.plan import Plan

CHUNK_BYTES = 16e6
"""Of tables that are filled together."""
HELD = 3
"""Columns of a memory row that add up: weights, mean KV, whole KV."""


@dataclass(frozen=True)
class Floors:
    """Lower bounds under every degrees.

    Attributes:
        seconds: (degrees, phases) of all stages without what they send, in the phases of a program's line.
        mixed: (degrees, phases) what a prompt adds to a decode step; empty where engines do not mix.
        sends: (degrees, phases).
        held: (degrees, HELD) bytes of all stages.
        buffers: (degrees,) bytes.
    """

    seconds: FloatArray
    mixed: FloatArray
    sends: FloatArray
    held: FloatArray
    buffers: FloatArray

    @classmethod
    def of(cls, cost: CostModel, streams: frozenset[int]) -> Floors:
        """Lower bounds of a cost model."""
        program = cost.program
        degrees, phases = len(program.pp), len(program.ladder) + FIRST_RUNG
        found = np.zeros((degrees, _columns(program)))
        sends, buffers = np.zeros((degrees, phases)), np.zeros(degrees)
        for axes in (1, 2):
            mine = np.flatnonzero(program.two_axes == axes - 1)
            if len(mine):
                found[mine] = _least(cost, axes, mine, streams)
                sizes = Factors.of(cost, axes, ()).sizes
                sends[mine] = _cheapest_sends(program, mine, sizes, phases)
                buffers[mine] = _least_buffers(program, mine, sizes)
        mixed = found[:, phases:-HELD]
        return cls(found[:, :phases], mixed, sends, found[:, -HELD:], buffers)


def _columns(program: Program) -> int:
    phases = len(program.ladder) + FIRST_RUNG
    return phases * (2 if len(program.mixed) else 1) + HELD


def _least(cost: CostModel, axes: int, mine: IntArray, streams: frozenset[int]) -> FloatArray:
    """(degrees, columns) minima, every stream by itself."""
    tables = [_part(cost, axes, mine, scopes, streams) for scopes in parts(all_scopes(cost.program), streams)]
    found = np.zeros((len(mine), _columns(cost.program)))
    for scope in sorted({scope for scope, _, _ in tables}):
        its = [(rows, key) for own, rows, key in tables if own == scope]
        keys = np.stack([key for _, key in its], axis=1)
        first, where = _distinct(keys)
        total = sum(rows[keys[first, at]] for at, (rows, _) in enumerate(its))
        found += np.min(total, axis=1)[where]
    return found


def rung_bounds(program: Program, floors: Floors, least: float) -> FloatArray:
    """(degrees, rungs) goodput per NPU that no strategy exceeds with a batch from this rung up to the next.

    Bounds that are not above ``least`` may be coarse.
    """
    goodput_of_rate = program.replicas * program.dp / program.npus
    rungs = len(program.ladder)
    rounds = [_least_round(program, floors, FIRST_RUNG + rung) for rung in range(rungs)]
    replica = Replica(most_sequences(program, floors), program.pp, program.dp)
    shortest = np.full((len(program.pp), 1), SHORTEST)
    found = np.zeros((len(program.pp), max(rungs - 1, 1)))
    for rung in range(found.shape[1]):
        upper = min(rung + 1, rungs - 1)
        ends = Ends(replica, rounds[rung], rounds[upper], shortest, shortest)
        low, high = float(program.ladder[rung]), float(program.ladder[upper])
        rates = highest_rate(ends, program.rules, low, high, least / goodput_of_rate)
        found[:, rung] = rates * goodput_of_rate
    return found


def most_sequences(program: Program, floors: Floors) -> FloatArray:
    """(degrees,) no rank's memory holds a larger batch."""
    weights, mean_kv, whole_kv = (floors.held / program.pp[:, None]).T
    room = program.rules.memory_limit - (floors.buffers + program.fixed_bytes)
    most: FloatArray = sequences_held(weights, mean_kv, whole_kv, program.pp, room)
    return most


def _least_round(program: Program, floors: Floors, phase: int) -> Round:
    """(degrees,) no round is shorter; a prompt is served by the mean stage, or within a decode step."""
    pp, row = program.pp, program.wait_row
    waits, share, own = program.waits[row, phase], program.shares[row, phase], program.overhead.ravel()
    lone, every = floors.seconds[:, LONE_PREFILL], floors.seconds[:, PREFILL]
    decode = floors.seconds[:, phase] + floors.sends[:, phase] + pp * own[phase]
    if len(program.mixed):
        added = floors.mixed[:, phase] + program.mixed_overhead.ravel()[phase] - own[phase]
        added = np.where(pp > 1, 0.0, added)
        return Round(decode, np.minimum(waits, pp), added, added)
    service = ((1 - share) * lone + share * every) / pp + own[LONE_PREFILL]
    return Round(decode, waits, service, pp * service)


def _distinct(keys: IntArray) -> tuple[IntArray, IntArray]:
    """(first of equal rows, which of these every row is)."""
    _, first, where = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, where.ravel()


def parts(scopes: list[Scope], streams: frozenset[int]) -> Iterator[list[Scope]]:
    """Scopes that are tied together by other variables than streams."""
    left = list(scopes)
    while left:
        part = [left.pop(0)]
        held = set(part[0]) - streams
        while touching := [scope for scope in left if held & set(scope)]:
            part += touching
            left = [scope for scope in left if scope not in touching]
            held = {variable for scope in part for variable in scope} - streams
        yield part


def _part(
    cost: CostModel, axes: int, mine: IntArray, scopes: list[Scope], streams: frozenset[int]
) -> tuple[Scope, FloatArray, IntArray]:
    """(streams that it depends on, (keys, entries, columns) minima, (degrees,) keys)."""
    program, factors = cost.program, Factors.of(cost, axes, scopes)
    plan = Plan.of(factors, streams, keep=True)
    kinds = ((program.edges, factors.times), (program.prompts, factors.prompts), (program.operators, factors.memory))
    bases = [rows.base[mine][:, np.unique(terms.k)] for rows, terms in kinds]
    first, keys = _distinct(np.concatenate(bases, axis=1).astype(np.int64))
    scope = next(iter(plan.left.values()))[0]
    found = []
    chunk = max(int(CHUNK_BYTES / (8 * plan.entries * _columns(program))), 1)
    for begin in range(0, len(first), chunk):
        table = _filled(program, plan, mine[first[begin : begin + chunk]])
        plan.minimise(table)
        found.append(sum(table[:, start : start + entries] for start, (_, entries) in plan.left.items()))
    return scope, np.concatenate(found), keys


def _filled(program: Program, plan: Plan, degrees: IntArray) -> FloatArray:
    """(degrees, entries, columns) of the factors under some degrees."""
    factors, phases = plan.factors, len(program.ladder) + FIRST_RUNG
    table = np.zeros((len(degrees), plan.entries, _columns(program)))

    def add(terms: Terms, rows: Rows, lines: FloatArray, first: int, columns: int, counts: FloatArray) -> None:
        add_strips(table, first, lines, columns, rows.which, rows.base[degrees], *terms, counts)

    totals = program.totals[0]
    add(factors.times, program.edges, program.lines, 0, phases, totals)
    add(factors.prompts, program.prompts, program.prefill[None], 0, FIRST_RUNG, totals)
    if len(program.mixed):
        add(factors.times, program.edges, program.mixed, phases, phases, totals)
        add(factors.times, program.edges, program.lines, phases, phases, -totals)
    held = np.where((program.stage_rows != program.stage_memory).any(axis=0), 0.0, totals)
    add(factors.memory, program.operators, program.memory[None], _columns(program) - HELD, HELD, held)
    return table


def _cheapest_sends(program: Program, mine: IntArray, sizes: tuple[int, ...], phases: int) -> FloatArray:
    rows, choices = program.sends, np.arange(sizes[int(program.sends.source[0])])
    its = program.lines[:, rows.which[rows.base[mine, 0][:, None] + choices]]
    least: FloatArray = np.moveaxis(its.min(axis=2), 0, 1).reshape(len(mine), -1)[:, :phases]
    return least


def _least_buffers(program: Program, mine: IntArray, sizes: tuple[int, ...]) -> FloatArray:
    rows = program.operators
    held = [
        program.memory[rows.base[mine, k][:, None] + np.arange(sizes[int(rows.source[k])]), BUFFER].min(axis=1)
        for k in range(len(rows.source))
    ]
    least: FloatArray = np.max(held, axis=0)
    return least
