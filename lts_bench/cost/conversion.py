"""The cheapest conversion of an activation between the layouts of its producer and its consumer, in time.

Activations have two dimensions, tokens and features. A tensor-parallel axis splits one of them (M or N), leaves the
tensor whole (R) or holds partial sums (P); where both axes split the same dimension, x is major.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, least
from lts_bench.cost.layout import Axes, Layout, Move, moves, reachable
from lts_bench.cost.mesh import Mesh
from lts_bench.cost.rows import distinct

FloatArray = NDArray[np.float64]
STATES = ("M", "N", "R", "P")
TOKENS, FEATURES = 0, 1


def canonical_layout(letters: tuple[str, ...]) -> Layout:
    """The layout in which axis i is in state ``letters[i]``."""
    dims = tuple(tuple(axis for axis, letter in enumerate(letters) if letter == name) for name in "MN")
    return Layout(dims, frozenset(axis for axis, letter in enumerate(letters) if letter == "P"))


@lru_cache(maxsize=4)
def state_letters(axes: int) -> tuple[tuple[str, ...], ...]:
    """Every canonical state of a mesh of one or two axes, x-major."""
    if axes == 1:
        return tuple((letter,) for letter in STATES)
    return tuple((x, y) for x in STATES for y in STATES)


@dataclass(frozen=True)
class _Graph:
    """Layouts of a mesh and the moves between them, each as (source, target, move).

    Attributes:
        levels: positions of the moves by the pending axes at their source, none first.
        canonical: positions of the canonical layouts, as in ``state_letters``.
        sends: different collectives of the moves: kind, axes, and the position in ``sized`` of what it is sized by.
        send: of every move, the position of its collective; -1 for a free one.
    """

    layouts: tuple[Layout, ...]
    moves: tuple[tuple[int, int, Move], ...]
    levels: tuple[tuple[int, ...], ...]
    canonical: tuple[int, ...]
    sized: tuple[Layout, ...]
    sends: tuple[tuple[Collective, Axes, int], ...]
    send: tuple[int, ...]


_TURNS = (1, 0, 2)
"""When the moves that start at so many sharded axes are tried."""
_Priced = tuple[int, int, FloatArray | None]
"""A move as (source, target, time); None for a free one."""


@lru_cache(maxsize=4)
def _graph(axes: int) -> _Graph:
    names: Axes = tuple(range(axes))
    layouts = reachable(canonical_layout(("P",) * axes), names)
    index = {layout: position for position, layout in enumerate(layouts)}
    nearest = sorted(layouts, key=lambda layout: (len(layout.pending), -len(layout.sharded)))
    steps = [move for layout in nearest for move in moves(layout, names)]
    sized, size = distinct(_unordered(move.sized_by) for move in steps)
    keys = [(move.kind, tuple(sorted(move.axes)), at) for move, at in zip(steps, size.tolist(), strict=True)]
    sends = [(kind, group, at) for kind, group, at in dict.fromkeys(keys) if kind is not None]
    return _Graph(
        layouts,
        tuple((index[move.source], index[move.target], move) for move in steps),
        tuple(_level(steps, pending) for pending in range(axes + 1)),
        tuple(index[canonical_layout(letters)] for letters in state_letters(axes)),
        tuple(sized),
        tuple(sends),
        tuple(-1 if kind is None else sends.index((kind, group, at)) for kind, group, at in keys),
    )


def _unordered(layout: Layout) -> Layout:
    """A layout whose devices hold as many bytes, the same for all orders of axes."""
    return Layout(tuple(tuple(sorted(dim)) for dim in layout.dims))


def _level(steps: list[Move], pending: int) -> tuple[int, ...]:
    """Positions of the moves that start at so many pending axes, in an order that shortens paths in few rounds."""

    def rank(position: int) -> tuple[int, bool, int]:
        move = steps[position]
        return _TURNS[len(move.source.sharded)], move.kind is not None, move.kind or 0

    return tuple(sorted((at for at, move in enumerate(steps) if len(move.source.pending) == pending), key=rank))


@dataclass(frozen=True)
class Activation:
    """A tensor between two operators.

    Attributes:
        tokens: (phases,) tokens of one data-parallel rank.
        features: features of one token.
        element_bytes: bytes of one element.
    """

    tokens: FloatArray
    features: int
    element_bytes: float


def local_bytes(mesh: Mesh, layout: Layout, tensor: Activation) -> FloatArray:
    """(keys, phases) bytes of the fullest device, tokens rounded up."""
    tokens = np.ceil(tensor.tokens[None, :] / mesh.product(layout.dims[TOKENS])[:, None])
    features = np.ceil(tensor.features / mesh.product(layout.dims[FEATURES]))[:, None]
    return tokens * features * tensor.element_bytes


def _move_seconds(mesh: Mesh, tensor: Activation, graph: _Graph) -> list[FloatArray | None]:
    """(keys, phases) time of every move; None for a free one."""
    local = np.array([local_bytes(mesh, layout, tensor) for layout in graph.sized])
    lines = np.array([mesh.regimes(group)[:, kind] for kind, group, _ in graph.sends])
    times = least(lines, local[[size for _, _, size in graph.sends]])
    return [None if at < 0 else times[at] for at in graph.send]


def conversion_seconds(mesh: Mesh, tensor: Activation) -> FloatArray:
    """(states, states, keys, phases) time of the cheapest conversion from every state to every one without P.

    Bellman-Ford over the layouts of a mesh: a handful of moves reach everything. None of them adds a pending axis, so
    layouts with fewer come first.
    """
    graph = _graph(mesh.axes)
    times = _move_seconds(mesh, tensor, graph)
    targets = [column for column, letters in enumerate(state_letters(mesh.axes)) if "P" not in letters]
    cost = np.full((len(graph.layouts), len(targets), len(mesh), len(tensor.tokens)), np.inf)
    for column, target in enumerate(targets):
        cost[graph.canonical[target], column] = 0.0
    for level in graph.levels:
        _relax(cost, [(*graph.moves[step][:2], times[step]) for step in level])
    found = np.empty((len(graph.canonical), len(graph.canonical), *cost.shape[2:]))
    found[:, [state for state in range(len(graph.canonical)) if state not in targets]] = np.inf
    for state, layout in enumerate(graph.canonical):
        found[state, targets] = cost[layout]
    return found


def _relax(cost: FloatArray, moves: Sequence[_Priced]) -> None:
    """Shorten paths by moves until none is; a move is tried again where what follows it got shorter since."""
    through, less = np.empty_like(cost[0]), np.empty(cost.shape[1:], dtype=np.bool_)
    tried, shortened = list(range(len(moves))), dict.fromkeys(range(len(cost)), -1)
    for now, (source, target, time) in enumerate(moves):
        there = cost[target] if time is None else np.add(cost[target], time, out=through)
        np.minimum(cost[source], there, out=cost[source])
        shortened[source] = now
    now = len(moves)
    while again := [at for at, (_, target, _) in enumerate(moves) if shortened[target] > tried[at]]:
        for at in again:
            source, target, time = moves[at]
            there = cost[target] if time is None else np.add(cost[target], time, out=through)
            if np.less(there, cost[source], out=less).any():
                np.minimum(cost[source], there, out=cost[source])
                shortened[source] = now
            tried[at] = now
            now += 1


def conversion_moves(mesh: Mesh, tensor: Activation, source: int, target: int, phase: int) -> list[tuple[Move, float]]:
    """The moves of the cheapest conversion on a mesh of one key, with the time of each."""
    graph = _graph(mesh.axes)
    times = [0.0 if time is None else float(time[0, phase]) for time in _move_seconds(mesh, tensor, graph)]
    ends = np.full(len(graph.layouts), np.inf)
    ends[graph.canonical[target]] = 0.0
    for _ in graph.layouts:
        for (start, end, _), time in zip(graph.moves, times, strict=True):
            ends[start] = min(ends[start], time + ends[end])
    path: list[tuple[Move, float]] = []
    if mesh.sizes.prod() == 1:
        return path
    at, goal = graph.canonical[source], graph.canonical[target]
    while at != goal:
        step = min(
            (time + ends[end], position)
            for position, ((start, end, _), time) in enumerate(zip(graph.moves, times, strict=True))
            if start == at
        )[1]
        path.append((graph.moves[step][2], times[step]))
        at = graph.moves[step][1]
    return path
