"""How layouts pass through elementwise functions, normalisations and reductions along one dimension.

Sources: GSPMD (arXiv 2105.04663) section 3, the placement rules of torch DTensor. What both compilers do bounds the
choices: partial factors of a product are reduced where they lie, the partial operand of a nonlinear function may be
scattered further along a dimension that is split already (Pope et al., 2211.05102: two reduce-scatters and one
all-gather instead of two all-reduces).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lts_bench.cost.choice import Choice, Place, settled
from lts_bench.cost.layout import Axes, Layout
from lts_bench.cost.programs import ADDITIVE, LINEAR_UNARY, Operator
from lts_bench.cost.redistribution import Tensor, all_reduce

Pending = frozenset[int]


def unary(operator: Operator, place: Place, layout: Layout) -> Iterator[Choice]:
    """A linear function keeps everything; a nonlinear one needs the reduced value."""
    summed = place.tensors[operator.operands[0]].reduce == "sum"
    linear = operator.kind == "reshard" or (operator.kind in LINEAR_UNARY and summed)
    for each in [layout] if linear else settled(layout, place.wishes, extend=True):
        yield Choice((each,), each)


def normalised(operator: Operator, place: Place, layout: Layout) -> Iterator[Choice]:
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
        split, whole = each.dims[axis], each.with_dim(axis, ())
        homes = {dim for other in split for dim in place.wishes.get(other, ()) if dim != axis}
        found += [whole.with_dim(dim, whole.dims[dim] + split) for dim in sorted(homes)]
        found += [whole] if operator.kind == "softmax" else []
    return list(dict.fromkeys(found))


def reduction(operator: Operator, place: Place, layout: Layout) -> Iterator[Choice]:
    """Axes of the reduced dimension leave partial results; a sum of partial sums stays one."""
    tensor = place.tensors[operator.operands[0]]
    axis = operator.axis % len(tensor.shape)
    linear = operator.kind == tensor.reduce
    for each in [layout] if linear else settled(layout, place.wishes):
        yield Choice((each,), Layout(each.with_dim(axis, ()).dims, each.pending | set(each.dims[axis])))


def binary(operator: Operator, place: Place, layouts: Sequence[Layout]) -> Iterator[Choice]:
    """Operands in one layout; partial sums stay where the function is linear in them."""
    pending = layouts[0].pending | layouts[1].pending
    for dims in _common_dims(layouts[0].dims, layouts[1].dims):
        free = Layout(dims, pending - {axis for dim in dims for axis in dim})
        for result in settled(free, place.wishes):
            yield Choice(_fitted(operator, place, result, (frozenset(), frozenset())), result)
        if free.pending == pending and _stays_partial(operator, place, layouts):
            yield Choice(_fitted(operator, place, free, (layouts[0].pending, layouts[1].pending)), free)


def _stays_partial(operator: Operator, place: Place, layouts: Sequence[Layout]) -> bool:
    """Whether the result is linear in what is pending: a + b, a · R, R · b, a / R."""
    if any(place.tensors[name].reduce != "sum" for name in operator.operands):
        return False
    left, right = (layout.pending for layout in layouts)
    if operator.kind in ADDITIVE:
        return bool(left) and left == right
    return bool(left) != bool(right) and (operator.kind == "mul" or bool(left))


def _common_dims(left: tuple[Axes, ...], right: tuple[Axes, ...]) -> list[tuple[Axes, ...]]:
    """Where slices alone make the layouts agree, the sliced one; else either operand's."""
    pairs = list(zip(left, right, strict=True))
    nested = all(a == b[: len(a)] or b == a[: len(b)] for a, b in pairs)
    sliced = tuple(max(pair, key=len) for pair in pairs)
    axes = [axis for dim in sliced for axis in dim]
    return [sliced] if nested and len(axes) == len(set(axes)) else [left, right]


def _fitted(operator: Operator, place: Place, result: Layout, pending: tuple[Pending, Pending]) -> tuple[Layout, ...]:
    """The result's layout on each operand: what is broadcast is not split."""
    full = place.tensors[operator.out].shape
    fitted = []
    for name, own in zip(operator.operands, pending, strict=True):
        pairs = zip(result.dims, place.tensors[name].shape, full, strict=True)
        fitted.append(Layout(tuple(axes if size == whole else () for axes, size, whole in pairs), own))
    return tuple(fitted)
