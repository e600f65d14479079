"""All strategies of a cell that may exceed a goodput, but for those that others dominate.

A label is a partial strategy: choices of some variables with their sums. Variables are eliminated in the order of a
plan; a label goes where its sums, with the least that the rest of the strategy adds, cannot reach the goodput, and
where another one with the same open choices is as low in every sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.exact.bounds import highest_rate
from lts_bench.exact.cells import Cell, Multipliers
from lts_bench.exact.kernels import complete, spread, undominated
from lts_bench.exact.plan import Bucket, Plan

BoolArray = NDArray[np.bool_]
MOST = 400_000
"""Labels that are joined at once."""


class TooManyError(Exception):
    """The search of a cell would take too long."""


@dataclass(frozen=True)
class Labels:
    """Labels of one message.

    Attributes:
        entry: (n,) entry of the message, ascending.
        sums: (n, dimensions).
        buffers: (n,) bytes.
        choices: (n, variables) of what is eliminated, 0 for all others.
    """

    entry: IntArray
    sums: FloatArray
    buffers: FloatArray
    choices: NDArray[np.uint8]

    def take(self, rows: IntArray | BoolArray) -> Labels:
        """Some of them."""
        return Labels(self.entry[rows], self.sums[rows], self.buffers[rows], self.choices[rows])


class Enumeration:
    """Labels of a cell that may exceed a goodput per NPU.

    Attributes:
        table: (entries, compared + 2) of the plan, all messages filled; the last two as ``multipliers`` weight.
        buffers: (variables, choices) bytes that a choice needs; ``floor`` that every strategy needs.
    """

    def __init__(
        self, cell: Cell, plan: Plan, table: FloatArray, multipliers: Multipliers, buffers: FloatArray, goodput: float
    ) -> None:
        self.cell, self.plan, self.table, self.multipliers = cell, plan, table, multipliers
        self.buffers, self.goodput = buffers, goodput
        self.floor = float(buffers.min(axis=1).max())

    def goodputs(self, sums: FloatArray, buffers: FloatArray, rest: float = 0.0) -> FloatArray:
        """(n,) goodput of strategies with these sums, exact only where it is above the one to exceed.

        Args:
            sums: (n, dimensions).
            buffers: (n,) bytes.
            rest: as in ``Ends``.
        """
        cell, rules = self.cell, self.cell.program.rules
        least = np.full(len(sums), self.goodput / cell.goodput_of_rate)
        ends = cell.ends(sums, buffers, self.multipliers, self.goodput)._replace(rest=rest)
        rates = highest_rate(ends, rules, cell.low, cell.high, least)
        return rates * cell.goodput_of_rate

    @property
    def root(self) -> FloatArray:
        """(1, dimensions) the least of every sum."""
        return self.table[list(self.plan.left)]

    @cached_property
    def bound(self) -> float:
        """Goodput that no strategy of the cell exceeds; it may be coarse where it is below the one to exceed."""
        return float(self.goodputs(self.root, np.array([self.floor]), self.cell.rest)[0])

    def labels(self) -> Labels:
        """Labels of whole strategies, which are none where nothing exceeds the goodput.

        Raises:
            TooManyError: if more than ``MOST`` labels would be joined.
        """
        rest, viable = self._rests()
        self._memory_decides = not self._fits(viable)
        messages: dict[int, Labels] = {}
        for number, bucket in enumerate(self.plan.buckets, start=len(self.plan.factors.scopes)):
            messages[number] = self._eliminated(bucket, viable[number], messages, rest)
        return messages[number]

    def _rests(self) -> tuple[FloatArray, dict[int, tuple[IntArray, IntArray]]]:
        """The least that is added to every message, and the entries and choices of every bucket that may do."""
        rest, viable = np.full_like(self.table, np.inf), {}
        rest[list(self.plan.left)] = 0.0
        factors = len(self.plan.factors.scopes)
        for number in range(factors + len(self.plan.buckets) - 1, factors - 1, -1):
            bucket = self.plan.buckets[number - factors]
            entry, choice, sums = complete(self.table, rest, bucket.offsets, bucket.strides, bucket.size, bucket.start)
            keeps = self._exceeds(sums, np.maximum(self.buffers[bucket.variable, choice], self.floor))
            viable[number] = entry[keeps], choice[keeps]
            first = sum(each < factors for each in bucket.inputs)
            spread(self.table, rest, bucket.offsets, bucket.strides, bucket.start, first, *viable[number])
        return rest, viable

    def _fits(self, viable: dict[int, tuple[IntArray, IntArray]]) -> bool:
        """Whether every strategy of choices that may do fits the memory at any batch size of the cell."""
        factors = self.plan.factors
        held, buffers = np.zeros(self.table.shape[1]), 0.0
        for bucket, (_, choice) in zip(self.plan.buckets, (viable[n] for n in sorted(viable)), strict=True):
            buffers = max(buffers, self.buffers[bucket.variable, choice].max(initial=0.0))
            if (bucket.variable,) in factors.scopes:
                start = factors.starts[factors.scopes.index((bucket.variable,))]
                held += self.table[start + choice].max(axis=0, initial=0.0)
        return float(self.cell.capacity(held[None], np.array([buffers]))[0]) >= self.cell.high

    def _exceeds(self, sums: FloatArray, buffers: FloatArray) -> BoolArray:
        exceeds: BoolArray = self.goodputs(sums, buffers) > self.goodput
        return exceeds

    def _eliminated(
        self, bucket: Bucket, viable: tuple[IntArray, IntArray], messages: dict[int, Labels], rest: FloatArray
    ) -> Labels:
        """Labels of a bucket's message: its factors under every choice that may do, joined with its messages."""
        entry, choice = viable
        rows = bucket.offsets[:, entry] + bucket.strides[:, None] * choice
        given = np.array([number in messages for number in bucket.inputs])
        choices = np.zeros((len(entry), len(self.buffers)), dtype=np.uint8)
        choices[:, bucket.variable] = choice
        labels = Labels(entry, self.table[rows[~given]].sum(axis=0), self.buffers[bucket.variable, choice], choices)
        open_sums = rest[bucket.start + entry] + self.table[rows[given]].sum(axis=0)
        at = np.arange(len(entry))
        for row, number in zip(rows[given], np.array(bucket.inputs)[given].tolist(), strict=True):
            open_sums = open_sums - self.table[row]
            label, other = _pairs(row[at] - self._start(number), messages[number].entry)
            if len(label) > MOST:
                raise TooManyError
            at, labels = at[label], _merged(labels.take(label), messages[number].take(other))
            keeps = self._exceeds(labels.sums + open_sums[at], np.maximum(labels.buffers, self.floor))
            at, labels = at[keeps], labels.take(keeps)
        return self._undominated(labels)

    def _start(self, number: int) -> int:
        return self.plan.buckets[number - len(self.plan.factors.scopes)].start

    def _undominated(self, labels: Labels) -> Labels:
        compared = labels.sums[:, : self.cell.times_only]
        if self._memory_decides:
            needed = self.cell.needed(labels.sums)
            compared = np.column_stack((compared, needed, np.maximum(labels.buffers, self.floor)))
        order = np.lexsort((*compared.T[::-1], labels.entry))
        labels, compared = labels.take(order), compared[order]
        return labels.take(undominated(compared, labels.entry))


def _pairs(entry: IntArray, others: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs (i, j) with entry[i] == others[j]; ``others`` is ascending."""
    first, last = (np.searchsorted(others, entry, side=side) for side in ("left", "right"))
    many = last - first
    i = np.repeat(np.arange(len(entry)), many)
    j = np.arange(len(i)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    return i, j


def _merged(one: Labels, other: Labels) -> Labels:
    return Labels(one.entry, one.sums + other.sums, np.maximum(one.buffers, other.buffers), one.choices + other.choices)
