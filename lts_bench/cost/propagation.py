"""How layouts pass through operators: which layouts of the operands an operator can work on and what comes out.

Every rule lists choices; the cheapest plan of the whole program decides between them (``planning``). What compilers
agree on bounds the lists: a split that both operands of a contraction carry is kept, a partial sum that meets a
nonlinear function is reduced there, an axis that nobody asks for stays idle.
Sources: GSPMD (arXiv 2105.04663) section 3, Alpa (2201.12023), the placement rules of torch DTensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from lts_bench.cost.layout import Axes, Layout
from lts_bench.cost.programs import ADDITIVE, BINARY, LINEAR_UNARY, NONLINEAR_UNARY, REDUCTIONS, Operator, letters
from lts_bench.cost.redistribution import DeviceMesh, Step, Tensor, all_reduce, conversion, wire_bytes

Wishes = Mapping[int, frozenset[int]]
"""Axis → dimensions that later operators would like it to split."""
KEEP, NONE = "keep", ""
LAUNCH_BYTES = 1 << 19
"""What a device sends while one more collective starts: some 25 µs at 20 GB/s, between nodes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to compute an operator.

    Attributes:
        operands: the layouts that the operands are converted to.
        result: the layout that comes out.
        flops: of a matrix product, per device.
        steps: collectives of the operator itself.
    """

    operands: tuple[Layout, ...]
    result: Layout
    flops: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where an operator stands: the mesh, every value's tensor, values whose layout is given, wishes for the result."""

    mesh: DeviceMesh
    tensors: Mapping[str, Tensor]
    fixed: frozenset[str]
    wishes: Wishes


def choices(operator: Operator, place: Place, layouts: Sequence[Layout]) -> Iterator[Choice]:
    """The ways to compute an operator whose operands lie in ``layouts``."""
    if operator.kind in ("einsum", "embed"):
        yield from _contraction(operator, place, layouts)
    elif operator.kind in BINARY:
        yield from _binary(operator, place, layouts)
    elif operator.kind in REDUCTIONS:
        yield from _reduction(operator, place, layouts[0])
    elif operator.kind in LINEAR_UNARY + NONLINEAR_UNARY:
        yield from _unary(operator, place, layouts[0])
    else:
        yield from _normalised(operator, place, layouts[0])


def settled(layout: Layout, wishes: Wishes, extend: bool = False) -> list[Layout]:
    """What a partial sum may become: reduced, or scattered to dimensions that are wished.

    Args:
        layout: with or without pending axes.
        wishes: dimensions to scatter to.
        extend: scatter also to dimensions that other axes split, gathered again where nobody wants that.
    """
    pending = sorted(layout.pending)
    split = frozenset(dim for dim, axes in enumerate(layout.dims) if axes) if extend else frozenset()
    homes = [(None, *sorted(wishes.get(axis, frozenset()) | split)) for axis in pending]
    found: dict[Layout, None] = {}
    for assigned in product(*homes):
        for order in permutations(range(len(pending))):
            dims = list(layout.dims)
            for index in order:
                home = assigned[index]
                if home is not None:
                    dims[home] += (pending[index],)
            found[Layout(tuple(dims))] = None
    return list(found)


def _unary(operator: Operator, place: Place, layout: Layout) -> Iterator[Choice]:
    linear = operator.kind == "reshard" or (
        operator.kind in LINEAR_UNARY and place.tensors[operator.operands[0]].reduce == "sum"
    )
    for each in [layout] if linear else settled(layout, place.wishes, extend=True):
        yield Choice((each,), each)


def _normalised(operator: Operator, place: Place, layout: Layout) -> Iterator[Choice]:
    """Softmax and rmsnorm: statistics are all-reduced where their dimension is split."""
    tensor = place.tensors[operator.operands[0]]
    axis = operator.axis % len(tensor.shape)
    statistics = ("max", "sum") if operator.kind == "softmax" else ("sum",)
    rows = (*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :])
    for each in _laid_out(operator, place, layout, axis):
        split = each.dims[axis]
        steps = tuple(
            all_reduce(place.mesh, Tensor(rows, tensor.element_bytes, reduce), each.with_dim(axis, ()), split)
            for reduce in statistics
            if place.mesh.parts(split) > 1
        )
        yield Choice((each,), each, steps=steps)


def _laid_out(operator: Operator, place: Place, layout: Layout, axis: int) -> list[Layout]:
    """Reduced; besides, with the axes of the normalised dimension moved where they are wished, or gathered."""
    found = settled(layout, place.wishes)
    for each in list(found):
        split = each.dims[axis]
        whole = each.with_dim(axis, ())
        homes = {dim for other in split for dim in place.wishes.get(other, ()) if dim != axis}
        found += [whole.with_dim(dim, whole.dims[dim] + split) for dim in sorted(homes)]
        found += [whole] if operator.kind == "softmax" else []
    return list(dict.fromkeys(found))


def _reduction(operator: Operator, place: Place, layout: Layout) -> Iterator[Choice]:
    """Axes of the reduced dimension leave partial results; a sum of partial sums stays one."""
    tensor = place.tensors[operator.operands[0]]
    axis = operator.axis % len(tensor.shape)
    linear = operator.kind == tensor.reduce
    for each in [layout] if linear else settled(layout, place.wishes):
        kept = each.with_dim(axis, ())
        yield Choice((each,), Layout(kept.dims, each.pending | set(each.dims[axis])))


def _binary(operator: Operator, place: Place, layouts: Sequence[Layout]) -> Iterator[Choice]:
    """Operands in one layout; partial sums stay where the function is linear in them."""
    left, right = layouts
    pending = left.pending | right.pending
    kept = _kept_pending(operator, place, left, right)
    for dims in _common_dims(left.dims, right.dims):
        free = Layout(dims, pending - {axis for dim in dims for axis in dim})
        results = [Layout(each.dims) for each in settled(free, place.wishes)]
        for result in results:
            yield Choice(tuple(_fitted(operator, place, result, operand) for operand in (0, 1)), result)
        for own in kept if free.pending == pending else ():
            fitted = tuple(Layout(_fitted(operator, place, free, operand).dims, own[operand]) for operand in (0, 1))
            yield Choice(fitted, Layout(dims, pending))


def _kept_pending(
    operator: Operator, place: Place, left: Layout, right: Layout
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The pending axes of both operands that may stay pending: a + b, a · R, R · b, a / R."""
    if any(place.tensors[name].reduce != "sum" for name in operator.operands):
        return []
    if operator.kind in ADDITIVE:
        return [(left.pending, right.pending)] if left.pending and left.pending == right.pending else []
    either = bool(left.pending) != bool(right.pending)
    linear = either and (operator.kind == "mul" or bool(left.pending))
    return [(left.pending, right.pending)] if linear else []


def _common_dims(left: tuple[Axes, ...], right: tuple[Axes, ...]) -> list[tuple[Axes, ...]]:
    """Where slices alone make the layouts agree, the sliced one; else either operand's."""
    axes = [axis for dim in zip(left, right, strict=True) for axis in set(dim[0]) | set(dim[1])]
    nested = all(a == b[: len(a)] or b == a[: len(b)] for a, b in zip(left, right, strict=True))
    if nested and len(axes) == len(set(axes)):
        return [tuple(max(pair, key=len) for pair in zip(left, right, strict=True))]
    return [left, right]


def _fitted(operator: Operator, place: Place, result: Layout, operand: int) -> Layout:
    """The result's layout on an operand: what is broadcast is not split."""
    shape = place.tensors[operator.operands[operand]].shape
    full = place.tensors[operator.out].shape
    pairs = zip(result.dims, shape, full, strict=True)
    return Layout(tuple(axes if size == whole else () for axes, size, whole in pairs))


def _contraction(operator: Operator, place: Place, layouts: Sequence[Layout]) -> Iterator[Choice]:
    """Einsum and look-up: every axis splits one index, or none.

    flops = 2 · Π local sizes of the indices.
    """
    left, right, out = letters(operator, place.tensors)
    words = (left, right)
    axes = place.mesh.axes
    for assigned in product(*(_indices(axis, operator, place, layouts, words, out) for axis in axes)):
        kept = tuple(frozenset(axis for axis in layout.pending if assigned[axis] == KEEP) for layout in layouts)
        for split in _orders(assigned, words, layouts):
            operands = tuple(
                Layout(tuple(split.get(letter, ()) for letter in word), own)
                for word, own in zip(words, kept, strict=True)
            )
            contracted = {axis for letter, group in split.items() if letter not in out for axis in group}
            result = Layout(tuple(split.get(letter, ()) for letter in out), kept[0] | kept[1] | contracted)
            yield Choice(operands, result, _flops(operator, place, words, split))


def _indices(
    axis: int, operator: Operator, place: Place, layouts: Sequence[Layout], words: tuple[str, str], out: str
) -> list[str]:
    """The indices that an axis may split, most natural first."""
    carried = [
        next((letter for letter, axes in zip(word, layout.dims, strict=True) if axis in axes), NONE)
        for word, layout in zip(words, layouts, strict=True)
    ]
    partial = [axis in layout.pending for layout in layouts]
    wished = [out[dim] for dim in sorted(place.wishes.get(axis, ()))]
    if _decided(operator, place, words, carried, partial, wished):
        return [carried[0] or carried[1]]
    found = [letter for letter in carried if letter] + wished
    if all(carried):
        found += _met_halfway(axis, operator, place, layouts, words, out)
    if sum(partial) == 1:
        found += words[partial.index(True)]
        reduce = place.tensors[operator.operands[partial.index(True)]].reduce
        found += [KEEP] if reduce == "sum" and not any(carried) else []
    whole = any(carried) and (all(carried) or "".join(carried) in out)
    return list(dict.fromkeys(found if whole else [*found, NONE]))


def _met_halfway(
    axis: int, operator: Operator, place: Place, layouts: Sequence[Layout], words: tuple[str, str], out: str
) -> list[str]:
    """Contracted indices that both operands may move an axis to, where that is well cheaper than gathering one."""
    tensors = [place.tensors[name] for name in operator.operands]

    def wire(operand: int, letter: str) -> int:
        dims = [tuple(other for other in axes if other != axis) for axes in layouts[operand].dims]
        if letter:
            dims[words[operand].index(letter)] += (axis,)
        target = Layout(tuple(dims), layouts[operand].pending)
        return wire_bytes(place.mesh, conversion(place.mesh, tensors[operand], layouts[operand], target))

    gathered = min(wire(operand, NONE) for operand in (0, 1))
    shared = [letter for letter in words[0] if letter in words[1] and letter not in out]
    return [letter for letter in shared if wire(0, letter) + wire(1, letter) + LAUNCH_BYTES * place.mesh.devices < gathered]


def _decided(
    operator: Operator,
    place: Place,
    words: tuple[str, str],
    carried: Sequence[str],
    partial: Sequence[bool],
    wished: Sequence[str],
) -> bool:
    """Whether the operands leave no choice: both carry an index, or one does and the other just follows it.

    A look-up follows its table; a value that is neither given nor pinned, nor wished otherwise, the other operand.
    """
    if all(carried):
        return carried[0] == carried[1]
    if not any(carried) or any(partial):
        return False
    other = 0 if carried[1] else 1
    follows = operator.operands[other] not in place.fixed and carried[1 - other] in words[other]
    return operator.kind == "embed" or (follows and not set(wished) & set(words[other]))


def _orders(assigned: Sequence[str], words: tuple[str, str], layouts: Sequence[Layout]) -> Iterator[dict[str, Axes]]:
    """Every order of the axes that split the same index, the operands' own order first."""
    groups: dict[str, list[int]] = {}
    present = [axis for layout in layouts for axes in layout.dims for axis in axes]
    for axis in sorted(range(len(assigned)), key=lambda axis: present.index(axis) if axis in present else len(present)):
        if assigned[axis] not in (KEEP, NONE):
            groups.setdefault(assigned[axis], []).append(axis)
    for orders in product(*(permutations(group) for group in groups.values())):
        yield dict(zip(groups, orders, strict=True))


def _flops(operator: Operator, place: Place, words: tuple[str, str], split: Mapping[str, Axes]) -> int:
    if operator.kind != "einsum":
        return 0
    sizes = {
        letter: size
        for word, name in zip(words, operator.operands, strict=True)
        for letter, size in zip(word, place.tensors[name].shape, strict=True)
    }
    return 2 * prod(-(-size // place.mesh.parts(split.get(letter, ()))) for letter, size in sizes.items())
