"""The cheapest conversion of a tensor between two layouts, in bytes on the wire.

Sliced before it is gathered, scattered while it is reduced: such paths are found, not prescribed. Ties go to fewer
collectives, then to the move that ``moves`` names first. Byte conventions: nccl-tests PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import permutations, product
from math import prod

from lts_bench.cost.collectives import Collective
from lts_bench.cost.layout import Axes, Layout, Move, moves


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """Ordered mesh axes, major first."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def axes(self) -> Axes:
        """Every axis."""
        return tuple(range(len(self.sizes)))

    @property
    def devices(self) -> int:
        """Devices of the mesh."""
        return prod(self.sizes)

    def parts(self, axes: Axes) -> int:
        """Devices along axes together."""
        return prod(self.sizes[axis] for axis in axes)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of a program.

    Attributes:
        shape: global sizes.
        element_bytes: bytes of one element.
        reduce: what a pending reduction of it does, ``sum`` or ``max``.
    """

    shape: tuple[int, ...]
    element_bytes: int
    reduce: str = "sum"

    def local_bytes(self, mesh: DeviceMesh, layout: Layout) -> int:
        """Bytes of the fullest device: every dimension over the devices along its axes, rounded up."""
        local = (-(-size // mesh.parts(axes)) for size, axes in zip(self.shape, layout.dims, strict=True))
        return prod(local) * self.element_bytes


@dataclass(frozen=True, slots=True)
class Step:
    """One collective.

    Attributes:
        kind: which collective.
        group: devices that take part together.
        n_bytes: per device: the all-reduce buffer, the reduce-scatter input, the all-gather output, the local
            all-to-all buffer or the bytes sent.
        reduce: ``sum`` or ``max`` of reducing collectives, else empty.
    """

    kind: Collective
    group: int
    n_bytes: int
    reduce: str = ""

    @property
    def wire_bytes(self) -> float:
        """Bytes that a device sends."""
        return self.scaled_wire_bytes(self.group) / self.group

    def scaled_wire_bytes(self, devices: int) -> int:
        """``wire_bytes`` times the devices of a mesh: a whole number, so that equal sums compare as equal."""
        if self.kind is Collective.SEND:
            return self.n_bytes * devices
        rounds = 2 if self.kind is Collective.ALL_REDUCE else 1
        return rounds * self.n_bytes * (self.group - 1) * (devices // self.group)


def wire_bytes(mesh: DeviceMesh, steps: Iterable[Step]) -> int:
    """Bytes that a device sends in all, times the devices of the mesh: a whole number."""
    return sum(step.scaled_wire_bytes(mesh.devices) for step in steps)


def all_reduce(mesh: DeviceMesh, tensor: Tensor, layout: Layout, axes: Axes) -> Step:
    """All-reduce of a tensor's local buffer over axes."""
    return Step(Collective.ALL_REDUCE, mesh.parts(axes), tensor.local_bytes(mesh, layout), tensor.reduce)


@lru_cache(maxsize=1 << 16)
def conversion(mesh: DeviceMesh, tensor: Tensor, source: Layout, target: Layout) -> tuple[Step, ...]:
    """The collectives of the cheapest conversion: Dijkstra over the layouts between two.

    In between, only axes and dimensions change that do so from end to end: compilers do not spread a reduction over
    devices that stand idle.

    Args:
        mesh: the devices.
        tensor: what is converted.
        source: the present layout.
        target: the wanted layout; pending axes must be pending in ``source`` too.
    """
    queue: list[tuple[int, int, int, Layout, tuple[Step, ...]]] = [(0, 0, 0, source, ())]
    between = _dims_between(source, target)
    axes = tuple(sorted(source.sharded | source.pending | target.sharded))
    known: set[Layout] = set()
    pushed = 0
    while queue:
        wire, count, _, layout, steps = heappop(queue)
        if layout == target:
            return steps
        if layout in known:
            continue
        known.add(layout)
        for move in (*moves(layout, axes), *_fetch(mesh, layout, target)):
            fits = move.target.dims in between and target.pending <= move.target.pending
            if fits and move.target not in known:
                pushed += 1
                step = _step(mesh, tensor, move)
                more = step.scaled_wire_bytes(mesh.devices) if step else 0
                longer = (*steps, step) if step else steps
                heappush(queue, (wire + more, count + bool(step), pushed, move.target, longer))
    raise AssertionError("every layout leads to every other one")


def _dims_between(source: Layout, target: Layout) -> frozenset[tuple[Axes, ...]]:
    """Every split by the axes of source and target of the dimensions where those differ, the rest as it is."""
    rank = len(source.dims)
    changed = [dim for dim in range(rank) if source.dims[dim] != target.dims[dim]]
    axes = sorted({axis for layout in (source, target) for dim in changed for axis in layout.dims[dim]})
    found: set[tuple[Axes, ...]] = set()
    for places in product((None, *changed), repeat=len(axes)):
        members = [[axis for axis, at in zip(axes, places, strict=True) if at == dim] for dim in range(rank)]
        options = [permutations(members[dim]) if dim in changed else [source.dims[dim]] for dim in range(rank)]
        found.update(product(*options))
    return frozenset(found)


def _fetch(mesh: DeviceMesh, layout: Layout, target: Layout) -> Iterator[Move]:
    """Every device fetches its new shard from one device, where that holds the whole of it."""
    pairs = list(zip(layout.dims, target.dims, strict=True))
    if layout.pending == target.pending and all(mesh.parts(new) % mesh.parts(old) == 0 for old, new in pairs):
        changed = {axis for old, new in pairs if old != new for axis in old + new}
        yield Move(Collective.SEND, tuple(sorted(changed)), layout, target)


def _step(mesh: DeviceMesh, tensor: Tensor, move: Move) -> Step | None:
    """The collective of a move, buffers padded where sizes are uneven; None where nothing is sent."""
    group = mesh.parts(move.axes)
    before, after = tensor.local_bytes(mesh, move.source), tensor.local_bytes(mesh, move.target)
    if move.kind is None or group == 1:
        return None
    match move.kind:
        case Collective.ALL_GATHER:
            return Step(move.kind, group, group * before)
        case Collective.REDUCE_SCATTER:
            return Step(move.kind, group, group * after, tensor.reduce)
        case Collective.ALL_REDUCE:
            return Step(move.kind, group, before, tensor.reduce)
        case Collective.ALL_TO_ALL:
            return Step(move.kind, group, max(before, after))
        case Collective.SEND:
            return Step(move.kind, group, after)
