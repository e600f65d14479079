"""The sums behind an evaluation as a factor graph: tables over the choices of one or two operators.

A strategy's step times and bytes are sums of table rows, each picked by the choices of at most two operators. On
meshes of one and of two axes the operators have other choices, so that each has its own graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from lts_bench.cost.model import CostModel
from lts_bench.cost.program import IntArray, Program, Rows
from lts_bench.cost.rows import positions

Scope = tuple[int, ...]
"""Variables of a table: columns of a vector, ascending."""


class Terms(NamedTuple):
    """Table rows that are added to entries of the factors: row ``base[degrees, k] + offset`` to ``entry``.

    Attributes:
        entry: (n,) position in the flat factors.
        k: (n,) column of the rows' base.
        offset: (n,).
        block: (n,) the block that the row is counted with.
    """

    entry: IntArray
    k: IntArray
    offset: IntArray
    block: IntArray


@dataclass(frozen=True)
class Factors:
    """Scopes of all tables on meshes of as many axes, flat one after the other, and the rows that fill them.

    Attributes:
        sizes: choices of every variable, by column of a vector; the degrees have one.
        scopes: of every factor.
        starts: (factors,) first entry of each.
        entries: entries of all factors together.
        times: rows of the steps' seconds; ``prompts`` of what prefills alone, ``sends`` of the boundaries of stages.
        memory: rows of the operators' bytes.
        tied: rows of the embedding that are not stored again where the head holds the same matrix.
    """

    sizes: tuple[int, ...]
    scopes: tuple[Scope, ...]
    starts: tuple[int, ...]
    entries: int
    times: Terms
    prompts: Terms
    sends: Terms
    memory: Terms
    tied: Terms

    @classmethod
    def of(cls, cost: CostModel, axes: int, only: Collection[Scope] | None = None) -> Factors:
        """The graph on meshes with ``axes`` axes, 1 or 2, or the part of it that has certain scopes."""
        program, operators = cost.program, cost.tables.rules.operators
        sizes = (1, *(positions(operator)[axes - 1] for operator in operators))
        scopes = all_scopes(program) if only is None else sorted(only)
        *starts, entries = accumulate((size_of(sizes, scope) for scope in scopes), initial=0)
        place = dict(zip(scopes, starts, strict=True))
        times, prompts, sends, memory = (_terms(rows, axes - 1, sizes, place) for rows in _tables(program))
        tied = _tied(program, sizes, place)
        return cls(sizes, tuple(scopes), tuple(starts), entries, times, prompts, sends, memory, tied)


def size_of(sizes: Sequence[int], scope: Scope) -> int:
    """Entries of a table."""
    return int(np.prod([sizes[variable] for variable in scope], dtype=np.int64))


def strides(sizes: Sequence[int], scope: Scope) -> dict[int, int]:
    """Step of a table's entry for every variable of its scope, of which the last runs fastest."""
    return {variable: size_of(sizes, scope[at + 1 :]) for at, variable in enumerate(scope)}


def all_scopes(program: Program) -> list[Scope]:
    """Scopes of all tables, sorted."""
    found = {_scope(rows, k) for rows in _tables(program) for k in range(len(rows.source))}
    return sorted(found | set(_tied_scopes(program)))


def _tables(program: Program) -> tuple[Rows, ...]:
    return program.edges, program.prompts, program.sends, program.operators


def _tied_scopes(program: Program) -> list[Scope]:
    """Embedding and head, the last two columns, where they may share a matrix."""
    columns = len(program.sizes)
    return [(columns - 2, columns - 1)] if np.any(program.stage_rows != program.stage_memory) else []


def _scope(rows: Rows, k: int) -> Scope:
    ends = {int(rows.source[k]), int(rows.target[k])} - {0}
    return tuple(sorted(ends))


def _terms(rows: Rows, axes: int, sizes: Sequence[int], place: Mapping[Scope, int]) -> Terms:
    """Every row that the tables of some edges or operators have."""
    scopes = [_scope(rows, k) for k in range(len(rows.source))]
    return _joined([_terms_of(rows, k, axes, sizes, place[scope]) for k, scope in enumerate(scopes) if scope in place])


def _joined(parts: Sequence[Terms]) -> Terms:
    none = Terms(*(np.zeros(0, dtype=np.int64) for _ in Terms._fields))
    return Terms(*(np.concatenate(each) for each in zip(none, *parts, strict=True)))


def _terms_of(rows: Rows, k: int, axes: int, sizes: Sequence[int], start: int) -> Terms:
    source, target, stride = int(rows.source[k]), int(rows.target[k]), int(rows.strides[axes, k])
    i, j = np.indices((sizes[source], sizes[target] if target else 1))
    steps = strides(sizes, _scope(rows, k))
    entry = start + i * steps[source] + j * steps.get(target, 0)
    return _of_one(rows, k, entry.ravel(), (i * stride + j).ravel())


def _of_one(rows: Rows, k: int, entry: IntArray, offset: IntArray) -> Terms:
    block = int(np.searchsorted(rows.first, k, side="right")) - 1
    return Terms(entry, np.full(len(entry), k), offset, np.full(len(entry), block))


def _tied(program: Program, sizes: Sequence[int], place: Mapping[Scope, int]) -> Terms:
    """Rows of the embedding under every choice of the head that stores the matrix alike."""
    for embed, head in set(_tied_scopes(program)) & set(place):
        i, j = np.indices((sizes[embed], sizes[head]))
        alike = program.stored[i] == program.stored[j]
        entry = place[embed, head] + i * sizes[head] + j
        k = int(np.flatnonzero(program.operators.source == embed)[0])
        return _of_one(program.operators, k, entry[alike], i[alike])
    return _joined([])
