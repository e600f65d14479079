"""All strategies of one pool that may be part of a better whole, but for those that others dominate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.pool_answer import IN_FLIGHT
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.exact.cells import Cell, Place
from lts_bench.exact.labels import BoolArray, TooManyError
from lts_bench.exact.part import Part
from lts_bench.exact.pool_cells import DecodeCell, Front, PrefillCell, Test
from lts_bench.exact.pool_rates import Prompts, Steps, waits


class PrefillFront(NamedTuple):
    """Prefill pools (n,) of the same degrees; where there are too many, one bound without a vector."""

    prompts: Prompts
    vectors: IntArray


class DecodeFront(NamedTuple):
    """Decode pools (n,) of the same degrees with their rounds, which tell whose they are; likewise."""

    steps: Steps
    vectors: IntArray


class Target(NamedTuple):
    """What a pool must reach to matter.

    Attributes:
        rate: requests per second.
        seconds: the longest wait and prefill, or the longest td.
    """

    rate: float
    seconds: float


def prefill_cell(part: Part, degrees: int) -> PrefillCell:
    """The only cell of a prefill pool."""
    return PrefillCell(part.program, Place(degrees, 0, IN_FLIGHT, IN_FLIGHT))


def decode_cell(part: Part, degrees: int, rung: int) -> DecodeCell:
    """The cell of a decode pool from a rung up to the next."""
    ladder = part.program.ladder
    return DecodeCell(
        part.program, Place(degrees, rung, int(ladder[rung]), int(ladder[min(rung + 1, len(ladder) - 1)]))
    )


def fastest(part: Part, cell: Cell) -> IntArray:
    """(n, decisions) vectors of a cell that minimise one of its times each."""
    front = Front(part, cell, lambda sums, capacity: np.ones(len(sums), dtype=np.bool_))
    choices = [front.plan.trace(front.table, at) for at in range(cell.times_only)]
    return np.unique(part.vectors(cell.degrees, np.array(choices)), axis=0)


def prefill_front(part: Part, degrees: int, target: Target) -> PrefillFront:
    """Prefill pools whose prompts may take no longer than the target at its rate."""
    cell, program, rules = prefill_cell(part, degrees), part.program, part.program.rules
    size = float(program.replicas[degrees]), float(program.pp[degrees]), float(program.dp[degrees])

    def passes(sums: FloatArray, capacity: FloatArray) -> BoolArray:
        prompts = Prompts(cell.prompts(sums), *size)
        found: BoolArray = waits(prompts, target.rate, rules.quantile, rules.queue_factor) <= target.seconds
        return found

    sums, _, vectors = _labels(part, Front(part, cell, passes))
    return PrefillFront(Prompts(cell.prompts(sums), *size), vectors)


def decode_front(part: Part, degrees: int, target: Target, floor: FloatArray) -> DecodeFront:
    """Decode pools that may reach the target's rate with rounds no longer than its seconds.

    Args:
        part: the pool.
        degrees: an index.
        target: to reach.
        floor: (rungs,) no round is shorter.
    """
    program, per_second = part.program, lanes_of(part, degrees)
    steps, vectors, owners = [], [np.zeros((0, len(part.space.names)), dtype=np.int64)], 0
    for rung in range(max(len(program.ladder) - 1, 1)):
        cell = decode_cell(part, degrees, rung)
        shortest = min(floor[rung], floor[min(rung + 1, len(floor) - 1)])
        if shortest > target.seconds or per_second * cell.high < target.rate * shortest:
            continue
        sums, capacity, found = _labels(part, Front(part, cell, _decode_test(cell, target, per_second)))
        batches, td = _rounds(cell, sums)
        mine, at = np.nonzero((batches <= capacity[:, None]) & (td <= target.seconds))
        steps.append(np.stack([per_second * batches[at] / td[mine, at], td[mine, at], owners + mine]))
        vectors.append(found)
        owners += len(sums)
    rate, seconds, owner = np.hstack(steps) if steps else np.zeros((3, 0))
    found_steps = Steps.of(rate, seconds, float(program.pp[degrees]))
    return DecodeFront(found_steps._replace(which=owner[found_steps.which].astype(np.int64)), np.concatenate(vectors))


def lanes_of(part: Part, degrees: int) -> float:
    """Requests per second of a decode pool for each b and reciprocal second of td."""
    program = part.program
    lanes = program.replicas[degrees] * program.dp[degrees] * program.pp[degrees]
    return float(lanes / part.cost.setting.phases.workload.osl)


def _decode_test(cell: DecodeCell, target: Target, per_second: float) -> Test:
    def passes(sums: FloatArray, capacity: FloatArray) -> BoolArray:
        low, high = cell.rounds(sums).T
        return serves(low, high, capacity, cell.low, cell.high, per_second, target.rate, target.seconds)

    return passes


@compiled
def serves(
    td_low: FloatArray, td_high: FloatArray, capacity: FloatArray, low: float, high: float, per_second: float,
    rate: float, longest: float,
) -> BoolArray:  # fmt: skip
    """(n,) whether some batch size from ``low`` to ``high`` reaches a rate with rounds no longer than ``longest``."""
    found = np.zeros(len(capacity), dtype=np.bool_)
    for n in range(len(found)):
        batch = low
        while batch <= min(high, capacity[n]) and not found[n]:
            td = td_low[n] + (batch - low) / max(high - low, 1.0) * (td_high[n] - td_low[n])
            found[n] = td <= longest and per_second * batch >= rate * td
            batch += 1.0
    return found


def _rounds(cell: DecodeCell, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """((batches,) of a cell, (n, batches) td)."""
    batches = np.arange(cell.low, cell.high + 1)
    low, high = cell.rounds(sums).T[..., None]
    return batches, low + (batches - cell.low) / max(cell.high - cell.low, 1.0) * (high - low)


def _labels(part: Part, front: Front) -> tuple[FloatArray, FloatArray, IntArray]:
    """(n, dimensions) sums, (n,) most sequences and (n, decisions) vectors of what passes.

    Where there are too many, the least sums, as if they were those of a strategy, which has no vector.
    """
    nothing = np.zeros((0, len(part.space.names)), dtype=np.int64)
    if not front.may_pass:
        return front.root[:0], np.zeros(0), nothing
    try:
        labels = front.labels()
    except TooManyError:
        return front.root, front.cell.capacity(front.root, np.array([front.floor])), nothing
    degrees = front.cell.degrees
    capacity = front.cell.capacity(labels.sums, np.maximum(labels.buffers, front.floor))
    return labels.sums, capacity, part.vectors(degrees, labels.choices)
