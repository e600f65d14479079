"""Programs of tensor operators on a mesh: what is computed from what, how inputs lie, where results are pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lts_bench.cost.layout import Layout
from lts_bench.cost.redistribution import DeviceMesh, Tensor
from lts_bench.specs.failure import InputError, did_you_mean

LINEAR_UNARY = ("scale", "reshard")
NONLINEAR_UNARY = ("relu", "silu", "exp")
ADDITIVE = ("add", "sub")
BINARY = (*ADDITIVE, "mul", "div")
REDUCTIONS = ("max", "sum")
ALONG_AXIS = (*REDUCTIONS, "softmax")
OPERANDS = {
    **dict.fromkeys((*LINEAR_UNARY, *NONLINEAR_UNARY, *ALONG_AXIS, "rmsnorm"), 1),
    **dict.fromkeys((*BINARY, "einsum", "embed"), 2),
}
"""Kind of operator → number of its operands."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        out: name of the result.
        kind: a key of ``OPERANDS``.
        operands: names of values that exist already.
        equation: ``mk,kn->mn`` of an einsum.
        axis: dimension of a softmax or reduction.
        pin: the layout that the result is converted to; None: the rules' choice.
    """

    out: str
    kind: str
    operands: tuple[str, ...]
    equation: str = ""
    axis: int = -1
    pin: Layout | None = None


@dataclass(frozen=True)
class Program:
    """Operators in order.

    Attributes:
        mesh: the devices.
        inputs: name → tensor.
        layouts: name of an input → its layout.
        weights: names of the inputs that are weights.
        operators: in the order of evaluation.
        outputs: name → layout that it must end in; None: free.
        element_bytes: bytes of an element of every result.
    """

    mesh: DeviceMesh
    inputs: Mapping[str, Tensor]
    layouts: Mapping[str, Layout]
    operators: tuple[Operator, ...]
    outputs: Mapping[str, Layout | None]
    weights: frozenset[str] = frozenset()
    element_bytes: int = 4

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every value, inputs first.

        Raises:
            InputError: an operator that is unknown, lacks operands or does not fit their shapes.
        """
        known = dict(self.inputs)
        for operator in self.operators:
            known[operator.out] = _result(operator, known, self.element_bytes)
        return known


def letters(operator: Operator, tensors: Mapping[str, Tensor]) -> tuple[str, str, str]:
    """Index letters of both operands and the result; a look-up is the contraction of a table with one-hot ids."""
    if operator.kind == "einsum":
        sides, _, out = operator.equation.replace(" ", "").partition("->")
        left, _, right = sides.partition(",")
        return left, right, out
    ids = "".join(map(chr, range(ord("a"), ord("a") + len(tensors[operator.operands[1]].shape))))
    return "VD", ids, f"{ids}D"


def _result(operator: Operator, known: Mapping[str, Tensor], element_bytes: int) -> Tensor:
    _check_operands(operator, known)
    shapes = [known[name].shape for name in operator.operands]
    reduce = "sum"
    if operator.kind in ("einsum", "embed"):
        shape = _contracted(operator, known)
    elif operator.kind in BINARY:
        shape = _broadcast(operator, shapes)
    elif operator.kind in ALONG_AXIS:
        axis = _axis(operator, len(shapes[0]))
        kept = operator.kind == "softmax"
        shape = tuple(size if kept or dim != axis else 1 for dim, size in enumerate(shapes[0]))
        reduce = "max" if operator.kind == "max" else "sum"
    else:
        shape = shapes[0]
        reduce = known[operator.operands[0]].reduce if operator.kind == "reshard" else "sum"
    if operator.pin is not None and len(operator.pin.dims) != len(shape):
        raise InputError(f"a layout of rank {len(shape)} is needed", field=f"{operator.out}.spec")
    return Tensor(shape, element_bytes, reduce)


def _check_operands(operator: Operator, known: Mapping[str, Tensor]) -> None:
    if operator.kind not in OPERANDS:
        hint = did_you_mean(operator.kind, OPERANDS)
        raise InputError(f"unknown operator{hint}", field=operator.out, value=operator.kind, legal=sorted(OPERANDS))
    if operator.out in known:
        raise InputError("the value exists already", field=operator.out)
    if len(operator.operands) != OPERANDS[operator.kind]:
        rule = f"{operator.kind} takes {OPERANDS[operator.kind]} operand(s)"
        raise InputError(rule, field=operator.out, value=list(operator.operands))
    for name in operator.operands:
        if name not in known:
            raise InputError(f"unknown operand{did_you_mean(name, known)}", field=operator.out, value=name)


def _contracted(operator: Operator, known: Mapping[str, Tensor]) -> tuple[int, ...]:
    left, right, out = letters(operator, known)
    sizes: dict[str, int] = {}
    for word, name in zip((left, right), operator.operands, strict=True):
        shape = known[name].shape
        if len(word) != len(shape) or len(set(word)) != len(word):
            raise InputError(f"must name each dimension of {name!r} once", field=operator.out, value=word)
        for letter, size in zip(word, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise InputError(f"sizes of index {letter!r} differ", field=operator.out, value=operator.equation)
    if not set(out) <= set(sizes) or len(set(out)) != len(out):
        raise InputError("the result's indices must be distinct ones of the operands", field=operator.out, value=out)
    return tuple(sizes[letter] for letter in out)


def _broadcast(operator: Operator, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    left, right = shapes
    if len(left) != len(right) or any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        raise InputError("operands' shapes do not agree", field=operator.out, value=[list(left), list(right)])
    return tuple(map(max, left, right))


def _axis(operator: Operator, rank: int) -> int:
    if not -rank <= operator.axis < rank:
        raise InputError(f"must be a dimension of rank {rank}", field=f"{operator.out}.axis", value=operator.axis)
    return operator.axis % rank
