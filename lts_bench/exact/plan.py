"""The order in which the variables of a factor graph are eliminated, as arrays that say which entries are summed.

Eliminating a variable joins all tables that hold it and leaves a message over the other variables of these tables.
Variables go in order of the smallest message; the streams, which hold the parts of the graph together, go last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.exact.factors import Factors, Scope, size_of, strides
from lts_bench.exact.kernels import minimise, traced


@dataclass(frozen=True)
class Bucket:
    """One eliminated variable.

    Attributes:
        variable: what is eliminated, of ``size`` choices.
        scope: variables of the message, ascending; its entries run over their choices, the last one fastest.
        inputs: tables that are joined, by number: factors first, then messages in order of the buckets.
        offsets: (inputs, entries of the message) entry of an input at choice 0 of the variable.
        strides: (inputs,) step of the entry from one choice to the next.
        start: first entry of the message in the flat tables.
    """

    variable: int
    size: int
    scope: Scope
    inputs: tuple[int, ...]
    offsets: IntArray
    strides: IntArray
    start: int

    @property
    def entries(self) -> int:
        """Entries of the message."""
        return int(self.offsets.shape[1])


@dataclass(frozen=True)
class Plan:
    """Buckets in the order of elimination.

    Attributes:
        entries: of all factors and messages together.
        left: tables that no bucket joins, by first entry: (scope, entries).
    """

    factors: Factors
    buckets: tuple[Bucket, ...]
    entries: int
    left: dict[int, tuple[Scope, int]]

    @classmethod
    def of(cls, factors: Factors, streams: Collection[int], *, keep: bool = False) -> Plan:
        """Eliminate all variables, the streams last; ``keep`` leaves messages over them."""
        tables, starts, end = dict(enumerate(factors.scopes)), list(factors.starts), factors.entries
        free = {variable for scope in factors.scopes for variable in scope} - set(streams if keep else ())
        buckets: list[Bucket] = []
        while free:
            variable = min(free, key=lambda v: (v in streams, _message_size(factors.sizes, tables, v), v))
            free.remove(variable)
            joined = {number: scope for number, scope in tables.items() if variable in scope}
            bucket = _bucket(factors.sizes, variable, joined, starts, end)
            tables = {number: scope for number, scope in tables.items() if number not in joined}
            tables[len(starts)] = bucket.scope
            starts.append(end)
            end += bucket.entries
            buckets.append(bucket)
        left = {starts[number]: (scope, size_of(factors.sizes, scope)) for number, scope in tables.items()}
        return cls(factors, tuple(buckets), end, left)

    def minimise(self, table: FloatArray) -> None:
        """Fill all messages of (cells, entries, dimensions) tables, each dimension by itself."""
        for bucket in self.buckets:
            minimise(table, bucket.offsets, bucket.strides, bucket.size, bucket.start)

    def forbidden(self, allowed: NDArray[np.bool_]) -> IntArray:
        """Entries of factors under choices that (variables, choices) does not allow."""
        sizes, found = self.factors.sizes, []
        for variable, size in list(enumerate(sizes))[1:]:
            at = next(at for at, scope in enumerate(self.factors.scopes) if variable in scope)
            scope, start = self.factors.scopes[at], self.factors.starts[at]
            entries = np.arange(size_of(sizes, scope))
            choice = entries // strides(sizes, scope)[variable] % size
            found.append(start + entries[~allowed[variable, choice]])
        return np.concatenate(found)

    def trace(self, table: FloatArray, dimension: int) -> NDArray[np.uint8]:
        """(variables,) the choices that minimise one dimension of a filled (entries, dimensions) table."""
        sizes = self.factors.sizes
        choices = np.zeros(len(sizes), dtype=np.uint8)
        for bucket in reversed(self.buckets):
            entry = sum(int(choices[variable]) * step for variable, step in strides(sizes, bucket.scope).items())
            choices[bucket.variable] = traced(table, bucket.offsets, bucket.strides, bucket.size, entry, dimension)
        return choices

    def total(self, table: FloatArray, choices: NDArray[np.uint8]) -> FloatArray:
        """(dimensions,) sum of the factors of an (entries, dimensions) table under (variables,) choices."""
        factors = self.factors
        steps = [strides(factors.sizes, scope) for scope in factors.scopes]
        places = [sum(int(choices[variable]) * step for variable, step in its.items()) for its in steps]
        summed: FloatArray = table[np.array(factors.starts) + places].sum(axis=0)
        return summed


def _neighbours(tables: Mapping[int, Scope], variable: int) -> Scope:
    found = {other for scope in tables.values() if variable in scope for other in scope}
    return tuple(sorted(found - {variable}))


def _message_size(sizes: Sequence[int], tables: Mapping[int, Scope], variable: int) -> int:
    return size_of(sizes, _neighbours(tables, variable))


def _bucket(
    sizes: Sequence[int], variable: int, tables: Mapping[int, Scope], starts: Sequence[int], start: int
) -> Bucket:
    scope = _neighbours(tables, variable)
    entries, steps = np.arange(size_of(sizes, scope)), strides(sizes, scope)
    choice = {v: entries // steps[v] % sizes[v] for v in scope} | {variable: np.zeros_like(entries)}
    its = [strides(sizes, table) for table in tables.values()]
    offsets = [
        starts[number] + sum((choice[v] * step for v, step in steps.items()), np.zeros_like(entries))
        for number, steps in zip(tables, its, strict=True)
    ]
    own = np.array([steps[variable] for steps in its])
    return Bucket(variable, sizes[variable], scope, tuple(tables), np.array(offsets), own, start)
