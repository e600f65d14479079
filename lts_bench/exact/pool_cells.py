"""Strategies of one pool that may reach a rate, but for those that others dominate.

At a given rate two times tell pools apart: what a prompt takes in the prefill pool, wait included, and the shortest
decode round that serves so many requests. The less of either, the better.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from lts_bench.cost.program import FloatArray
from lts_bench.exact.cells import EVERY, HIGH, LONE, LOW, NONE, Cell
from lts_bench.exact.labels import BoolArray, Enumeration
from lts_bench.exact.part import Part

KINDS = HIGH + 1
"""Kinds of time of a cell."""
Test = Callable[[FloatArray, FloatArray], BoolArray]


class PrefillCell(Cell):
    """The prefill pools of some degrees: only prompts take time."""

    @cached_property
    def kinds(self) -> FloatArray:
        """(kinds, phases) the kinds of time as weights of the phases."""
        kinds = np.zeros((KINDS, KINDS))
        kinds[LONE, LONE], kinds[EVERY, EVERY] = float(self.dp > 1), 1.0
        return kinds

    def prompts(self, sums: FloatArray) -> FloatArray:
        """(n, 4) seconds of a lone prompt and of one on every rank, in the heaviest stage, then in all, of sums."""
        whole, heaviest = _stages(self, sums)
        lone = LONE if self.dp > 1 else EVERY
        return np.stack([heaviest[lone], heaviest[EVERY], whole[lone], whole[EVERY]], axis=1)


class DecodeCell(Cell):
    """The decode pools of some degrees with a batch size between two rungs: only decoding takes time."""

    @cached_property
    def kinds(self) -> FloatArray:
        """(kinds, phases) the kinds of time as weights of the phases."""
        kinds = np.zeros((KINDS, KINDS))
        kinds[LOW:, LOW:] = self.between
        if self.high == self.low:
            kinds[HIGH] = 0.0
        return kinds

    def rounds(self, sums: FloatArray) -> FloatArray:
        """(n, 2) td at the lowest and at the highest batch size."""
        whole, heaviest = _stages(self, sums)
        return np.stack([np.maximum(self.pp * heaviest[at], whole[at]) for at in self._at(LOW)], axis=1)


def _stages(cell: Cell, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """((kinds, n) seconds of all stages, (kinds, n) of the heaviest one)."""
    times = sums[:, : cell.times_only] + cell.constant[: cell.times_only]
    whole = times[:, :KINDS].T
    if not cell.pipelined:
        return whole, whole
    return whole, times[:, KINDS:].reshape(len(times), cell.stages, KINDS).max(axis=1).T


class Front(Enumeration):
    """All labels of a cell that fit the memory and pass a test.

    Args:
        part: the pool.
        cell: of the pool.
        passes: (n,) of (n, dimensions) sums and the (n,) most sequences that the memory holds; what a strategy passes,
            none passes less that has shorter times and more room.
    """

    def __init__(self, part: Part, cell: Cell, passes: Test) -> None:
        plan = part.plan(cell.degrees)
        table = np.ascontiguousarray(part.table(cell)[:, : cell.compared])
        plan.minimise(table[None])
        super().__init__(cell, plan, table, NONE, part.buffers(cell.degrees, plan), 0.0)
        self._passes = passes

    @property
    def may_pass(self) -> bool:
        """Whether the least of every sum passes."""
        return bool(self._exceeds(self.root, np.array([self.floor]))[0])

    def _exceeds(self, sums: FloatArray, buffers: FloatArray) -> BoolArray:
        capacity = self.cell.capacity(sums, buffers)
        passes: BoolArray = (capacity >= self.cell.low) & self._passes(sums, capacity)
        return passes
