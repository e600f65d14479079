"""What is known of a program before it is planned: where pins and inputs put every value.

Forward: the layout that a value has if nothing is converted. Backward: the dimensions that pins, outputs and the other
operands of contractions would like an axis to split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from lts_bench.cost.layout import Axes, Layout
from lts_bench.cost.programs import BINARY, REDUCTIONS, Operator, Program, letters

Split = Mapping[int, frozenset[int]]
"""Axis → dimensions."""


def natural_splits(program: Program) -> dict[str, dict[int, int]]:
    """Value → axis → the dimension it splits where the first operand that has an axis decides."""
    natural = {name: _of_dims(layout.dims) for name, layout in program.layouts.items()}
    for operator in program.operators:
        if operator.pin is not None:
            natural[operator.out] = _of_dims(operator.pin.dims)
            continue
        passed: dict[int, int] = {}
        for position, name in enumerate(operator.operands):
            mapping = dict(_dim_pairs(operator, program, position))
            for axis, dim in natural[name].items():
                if dim in mapping and axis not in passed:
                    passed[axis] = mapping[dim]
        natural[operator.out] = passed
    return natural


def wishes(program: Program) -> dict[str, Split]:
    """Value → axis → the dimensions that its pin or else its consumers wish."""
    natural = natural_splits(program)
    wished: dict[str, dict[int, set[int]]] = {name: {} for name in program.tensors}
    for name, layout in program.outputs.items():
        if layout is not None:
            _add(wished[name], _of_dims(layout.dims).items())
    for operator in reversed(program.operators):
        if operator.pin is not None:
            wished[operator.out] = {axis: {dim} for axis, dim in _of_dims(operator.pin.dims).items()}
        for position, name in enumerate(operator.operands):
            _add(wished[name], _asked(operator, program, position, wished[operator.out], natural))
    return {name: {axis: frozenset(dims) for axis, dims in each.items()} for name, each in wished.items()}


def sliced_pins(program: Program) -> dict[str, Layout]:
    """Pinned value → the finer layout to which its one use slices it.

    Compilers turn an all-reduce of which only slices are used into a reduce-scatter.
    """
    pins = {each.out: each.pin for each in program.operators if each.pin is not None}
    used = Counter([name for each in program.operators for name in each.operands] + list(program.outputs))
    ends = {each.operands[0]: each.pin for each in program.operators if each.kind == "reshard"} | dict(program.outputs)
    return {
        name: end
        for name, pin in pins.items()
        if used[name] == 1
        and (end := ends.get(name)) is not None
        and all(fine[: len(have)] == have for fine, have in zip(end.dims, pin.dims, strict=True))
    }


def _asked(
    operator: Operator,
    program: Program,
    position: int,
    result: Mapping[int, set[int]],
    natural: Mapping[str, dict[int, int]],
) -> Iterator[tuple[int, int]]:
    """(axis, dimension) that an operator wishes of an operand: what the result wants, what the other operand has."""
    agreed = _agreed(operator, program, natural)
    for mine, dim in _dim_pairs(operator, program, position):
        yield from ((axis, mine) for axis, dims in result.items() if dim in dims and axis not in agreed)
    if len(operator.operands) == 2:
        other = 1 - position
        pairs = {theirs: mine for mine, theirs in _shared_dims(operator, program, position)}
        for axis, dim in natural[operator.operands[other]].items():
            if dim in pairs:
                yield axis, pairs[dim]


def _agreed(operator: Operator, program: Program, natural: Mapping[str, dict[int, int]]) -> set[int]:
    """Axes that both operands of a contraction split the same index by."""
    if operator.kind != "einsum":
        return set()
    left, right = (natural[name] for name in operator.operands)
    shared = set(_shared_dims(operator, program, 0))
    return {axis for axis, dim in left.items() if axis in right and (dim, right[axis]) in shared}


def _dim_pairs(operator: Operator, program: Program, position: int) -> Iterator[tuple[int, int]]:
    """(dimension of an operand, dimension of the result) that are the same."""
    if operator.kind in ("einsum", "embed"):
        words = letters(operator, program.tensors)
        yield from _matches(words[position], words[2])
        return
    shape = program.tensors[operator.operands[position]].shape
    full = program.tensors[operator.out].shape
    for dim, (size, whole) in enumerate(zip(shape, full, strict=True)):
        reduced = operator.kind in REDUCTIONS and dim == operator.axis % len(shape)
        if size == whole and not reduced:
            yield dim, dim


def _shared_dims(operator: Operator, program: Program, position: int) -> Iterator[tuple[int, int]]:
    """(dimension of an operand, dimension of the other one) that are the same."""
    if operator.kind in BINARY:
        shapes = [program.tensors[name].shape for name in operator.operands]
        yield from ((dim, dim) for dim, (a, b) in enumerate(zip(*shapes, strict=True)) if a == b)
    else:
        words = letters(operator, program.tensors)
        yield from _matches(words[position], words[1 - position])


def _matches(word: str, other: str) -> Iterator[tuple[int, int]]:
    yield from ((dim, other.index(letter)) for dim, letter in enumerate(word) if letter in other)


def _of_dims(dims: tuple[Axes, ...]) -> dict[int, int]:
    return {axis: dim for dim, axes in enumerate(dims) for axis in axes}


def _add(wished: dict[int, set[int]], pairs: Iterable[tuple[int, int]]) -> None:
    for axis, dim in pairs:
        wished.setdefault(axis, set()).add(dim)
