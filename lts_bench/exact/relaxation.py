"""Bounds of a cell that trade decode time, prefill and memory off against each other.

The least of each sum by itself may belong to different strategies. A weighted sum of all belongs to one: its minimum,
less the weights of the limits, is a bound that weights tighten. They are found with cutting planes: every minimiser is
a strategy, and the next weights are those under which the strategies found so far are bounded best (Kelley, 1960).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.program import FloatArray
from lts_bench.cost.steady import NO_LIMIT
from lts_bench.exact.bounds import SHORTEST
from lts_bench.exact.cells import RUNGS, Cell, Multipliers
from lts_bench.exact.labels import Enumeration
from lts_bench.exact.plan import Plan

ROUNDS = 12
"""Most weights that are tried."""
STEPS = np.concatenate(([0.0], np.geomspace(1e-3, 30, 60)))
"""Weights in units of the shortest TPOT per limit."""
Choices = NDArray[np.uint8]


def relaxed(
    cell: Cell,
    plan: Plan,
    table: FloatArray,
    buffers: FloatArray,
    goodput: float,
    found: Callable[[Choices], None],
) -> Enumeration:
    """The enumeration of a cell with the tightest bound.

    Args:
        cell: what to bound.
        plan: of the cell's mesh.
        table: (entries, dimensions) of the cell with its factors filled.
        buffers: (variables, choices) bytes that a choice needs.
        goodput: to exceed; bounds below it need not be tight.
        found: told the (n, variables) choices of every strategy met.
    """
    own, basis = np.ascontiguousarray(table[:, : cell.compared]), table[:, cell.basis]
    plan.minimise(own[None])
    if cell.pipelined and not cell.mixes:
        cell.rest = _least_rest(cell, plan, table)
    nothing = Multipliers(0.0, 0.0, 0.0)
    none = np.zeros((len(own), RUNGS * cell.paths))
    best = Enumeration(cell, plan, np.hstack((own, none)), nothing, buffers, goodput)
    limits = _limits(cell, best)
    weights = Multipliers(0.0, 0.0, limits[0])
    strategies: dict[bytes, FloatArray] = {}
    for _ in range(ROUNDS):
        if best.bound <= goodput:
            break
        sums = np.ascontiguousarray(weights.weighted(basis))
        plan.minimise(sums[None])
        tried = Enumeration(cell, plan, np.hstack((own, sums)), weights, buffers, goodput)
        best = min(best, tried, key=lambda each: each.bound)
        choices = np.array([plan.trace(sums, dimension) for dimension in range(sums.shape[1])])
        new = {each.tobytes(): plan.total(basis, each) for each in choices}
        if new.keys() <= strategies.keys():
            break
        found(choices)
        strategies |= new
        weights = _best_weights(cell, np.array([*strategies.values()]) + cell.constant[cell.basis], limits)
    return best


def _least_rest(cell: Cell, plan: Plan, table: FloatArray) -> float:
    """Seconds that a prompt takes in all stages but the heaviest, at least."""
    rests = np.ascontiguousarray(table[:, cell.basis.stop :])
    plan.minimise(rests[None])
    return float((rests[list(plan.left)].sum(axis=0) + cell.constant[cell.basis.stop :]).min())


def _limits(cell: Cell, enumeration: Enumeration) -> tuple[float, float]:
    """The longest prefill, 0 where none is too long or it is part of the decode steps; the bytes beside the buffers."""
    root, floor = enumeration.root, np.array([enumeration.floor])
    room = cell.program.rules.memory_limit - (enumeration.floor + cell.program.fixed_bytes)
    if cell.mixes or cell.program.rules.ttft_limit >= NO_LIMIT:
        return 0.0, room
    return cell.prefill_limit(cell.ends(root, floor, enumeration.multipliers)), room


def _best_weights(cell: Cell, strategies: FloatArray, limits: tuple[float, float]) -> Multipliers:
    """Weights under which (n, basis) strategies are bounded best."""
    prefill_limit, room = limits
    unit = strategies[:, 0].min()
    prefill = STEPS[:, None] * unit / prefill_limit if prefill_limit > 0 else np.zeros((1, 1))
    memory = STEPS[None, :] * unit / room
    paths = strategies[:, :-1].reshape(len(strategies), cell.paths, 2, RUNGS)
    shortest = np.full((RUNGS, len(prefill), len(STEPS)), -np.inf)
    for path in range(cell.paths):
        for rung in range(RUNGS):
            bounds = [
                times[path, 0, rung] + prefill * (total - prefill_limit) + memory * (times[path, 1, rung] - room)
                for times, total in zip(paths, strategies[:, -1], strict=True)
            ]
            shortest[rung] = np.maximum(shortest[rung], np.min(bounds, axis=0))
    rates = np.array([[[cell.low]], [[cell.high]]]) / np.maximum(shortest, SHORTEST)
    at = np.unravel_index(rates.max(axis=0).argmin(), rates.shape[1:])
    return Multipliers(float(prefill[at[0], 0]), float(memory[0, at[1]]), prefill_limit)
