"""The placement algebra: where the parts of a tensor lie on mesh axes, and the moves between layouts.

A layout gives every tensor dimension an ordered tuple of mesh axes, major first, and holds the set of axes over which
a reduction is pending. An axis stands at most once. Moves are those of SPMD compilers (GSPMD, arXiv 2105.04663).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from lts_bench.cost.collectives import Collective

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor is spread.

    Attributes:
        dims: axes of every tensor dimension, major first.
        pending: axes whose devices hold partial sums.
    """

    dims: tuple[Axes, ...]
    pending: frozenset[int] = frozenset()

    @property
    def sharded(self) -> frozenset[int]:
        """Axes that split the tensor."""
        return frozenset(axis for dim in self.dims for axis in dim)

    def with_dim(self, dim: int, axes: Axes) -> Layout:
        """The layout with one dimension's axes replaced."""
        return Layout((*self.dims[:dim], axes, *self.dims[dim + 1 :]), self.pending)


@dataclass(frozen=True, slots=True)
class Move:
    """One step between layouts; ``kind`` is None for a slice, which is free."""

    kind: Collective | None
    axes: Axes
    source: Layout
    target: Layout

    @property
    def sized_by(self) -> Layout:
        """The layout whose local bytes the collective's formula takes: an all-gather's output, else the input."""
        return self.target if self.kind is Collective.ALL_GATHER else self.source


def moves(layout: Layout, axes: Axes) -> Iterator[Move]:
    """All moves out of a layout on a mesh of the given axes."""
    yield from _slices(layout, axes)
    yield from _reductions(layout)
    yield from _suffix_moves(layout)
    yield from _reorders(layout)


def _slices(layout: Layout, axes: Axes) -> Iterator[Move]:
    for axis in axes:
        if axis not in layout.sharded | layout.pending:
            for dim, have in enumerate(layout.dims):
                yield Move(None, (axis,), layout, layout.with_dim(dim, (*have, axis)))


def _reductions(layout: Layout) -> Iterator[Move]:
    for group in _ordered_groups(layout.pending):
        left = layout.pending - set(group)
        if tuple(sorted(group)) == group:
            yield Move(Collective.ALL_REDUCE, group, layout, Layout(layout.dims, left))
        for dim, have in enumerate(layout.dims):
            scattered = layout.with_dim(dim, have + group)
            yield Move(Collective.REDUCE_SCATTER, group, layout, Layout(scattered.dims, left))


def _ordered_groups(axes: frozenset[int]) -> Iterator[Axes]:
    for size in range(1, len(axes) + 1):
        yield from permutations(sorted(axes), size)


def _suffix_moves(layout: Layout) -> Iterator[Move]:
    """Only the minor-most axes of a dimension can be gathered or moved in one step."""
    for dim, have in enumerate(layout.dims):
        for start in range(len(have)):
            kept, suffix = have[:start], have[start:]
            rest = layout.with_dim(dim, kept)
            yield Move(Collective.ALL_GATHER, suffix, layout, rest)
            for other, there in enumerate(layout.dims):
                if other != dim:
                    yield Move(Collective.ALL_TO_ALL, suffix, layout, rest.with_dim(other, there + suffix))


def _reorders(layout: Layout) -> Iterator[Move]:
    for dim, have in enumerate(layout.dims):
        for order in permutations(have):
            if order != have:
                yield Move(Collective.SEND, tuple(sorted(have)), layout, layout.with_dim(dim, order))


def reachable(start: Layout, axes: Axes) -> tuple[Layout, ...]:
    """Every layout that moves lead to, ``start`` first."""
    found = {start: None}
    queue = [start]
    for layout in queue:
        for move in moves(layout, axes):
            if move.target not in found:
                found[move.target] = None
                queue.append(move.target)
    return tuple(found)
