"""The cheapest conversion of an activation between the layouts of its producer and its consumer, in time.

Activations have two dimensions, tokens and features. A tensor-parallel axis splits one of them (M or N), leaves the
tensor whole (R) or holds partial sums (P); where both axes split the same dimension, x is major.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.layout import Axes, Layout, Move, moves, reachable
from lts_bench.cost.mesh import Mesh

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
    layouts: tuple[Layout, ...]
    moves: tuple[tuple[int, int, Move], ...]
    canonical: tuple[int, ...]


@lru_cache(maxsize=4)
def _graph(axes: int) -> _Graph:
    """Layouts of a mesh and the moves between them, each as (source, target, move)."""
    names: Axes = tuple(range(axes))
    layouts = reachable(canonical_layout(("P",) * axes), names)
    index = {layout: position for position, layout in enumerate(layouts)}
    nearest = sorted(layouts, key=lambda layout: (len(layout.pending), -len(layout.sharded)))
    steps = tuple((index[m.source], index[m.target], m) for layout in nearest for m in moves(layout, names))
    return _Graph(layouts, steps, tuple(index[canonical_layout(letters)] for letters in state_letters(axes)))


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


def _move_seconds(mesh: Mesh, tensor: Activation, graph: _Graph) -> list[FloatArray]:
    local = {layout: local_bytes(mesh, layout, tensor) for layout in graph.layouts}
    known: dict[tuple[Collective, Axes, Axes, Axes], FloatArray] = {}
    times: list[FloatArray] = []
    for _, _, move in graph.moves:
        if move.kind is None:
            times.append(np.zeros((1, 1)))
            continue
        layout = move.sized_by
        tokens, features = (tuple(sorted(dim)) for dim in layout.dims)
        key = (move.kind, tuple(sorted(move.axes)), tokens, features)
        if key not in known:
            known[key] = seconds(mesh.regimes(move.axes), move.kind, local[layout])
        times.append(known[key])
    return times


def conversion_seconds(mesh: Mesh, tensor: Activation) -> FloatArray:
    """(states, states, keys, phases) time of the cheapest conversion from every state to every one without P.

    Bellman-Ford over the layouts of a mesh: a handful of moves reach everything.
    """
    graph = _graph(mesh.axes)
    times = _move_seconds(mesh, tensor, graph)
    targets = [column for column, letters in enumerate(state_letters(mesh.axes)) if "P" not in letters]
    cost = np.full((len(graph.layouts), len(targets), len(mesh), len(tensor.tokens)), np.inf)
    for column, target in enumerate(targets):
        cost[graph.canonical[target], column] = 0.0
    before, through = np.empty_like(cost), np.empty_like(cost[0])
    while not np.array_equal(before, cost):
        before[:] = cost
        for (source, target, _), time in zip(graph.moves, times, strict=True):
            np.add(cost[target], time, out=through)
            np.minimum(cost[source], through, out=cost[source])
    found = np.full((len(graph.canonical), len(graph.canonical), *cost.shape[2:]), np.inf)
    found[:, targets] = cost[list(graph.canonical)]
    return found


def conversion_moves(mesh: Mesh, tensor: Activation, source: int, target: int, phase: int) -> list[tuple[Move, float]]:
    """The moves of the cheapest conversion on a mesh of one key, with the time of each."""
    graph = _graph(mesh.axes)
    times = [
        float(np.broadcast_to(time, (1, len(tensor.tokens)))[0, phase]) for time in _move_seconds(mesh, tensor, graph)
    ]
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
