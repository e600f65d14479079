"""Short runs of numbers as vectors in compiled functions: loaded, computed with, compared and stored at once.

The compiler leaves runs this short to scalar instructions. Vectors take part in ``+ - * / > <= >=`` and ``select``
among themselves and with numbers, so that a formula takes them for its numbers, too; every lane gets the bits that it
would get by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from lts_bench.cost.compiled import select
from lts_bench.cost.rows import LINE, MEMORY


class Vector(types.Type):
    """Numbers of 64 bits, as many as its width."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Vector({width})")


class Mask(types.Type):
    """Truth values, as many as its width."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Mask({width})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """How a vector is held: in a register."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, _many(kind))  # type: ignore[no-untyped-call]


@register_model(Mask)
class MaskModel(models.PrimitiveModel):
    """How a mask is held."""

    def __init__(self, manager: Any, kind: Mask) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), kind.width))  # type: ignore[no-untyped-call]


def _many(kind: Vector) -> Any:
    return ir.VectorType(ir.DoubleType(), kind.width)


def _repeated(context: Any, builder: Any, kind: Any, value: Any, width: int) -> Any:
    """A vector as it is, a number in all lanes of one."""
    if isinstance(kind, Vector):
        return value
    number = context.cast(builder, value, kind, types.float64)
    lanes = ir.Constant(ir.VectorType(ir.DoubleType(), width), ir.Undefined)
    for lane in range(width):
        lanes = builder.insert_element(lanes, number, ir.Constant(ir.IntType(32), lane))
    return lanes


def _among(*kinds: Any) -> Any:
    """The vectors' type where vectors meet each other or numbers, else None."""
    vectors = [kind for kind in kinds if isinstance(kind, Vector)]
    fits = all(isinstance(kind, (Vector, types.Number)) for kind in kinds)
    return vectors[0] if vectors and fits else None


def _lane_by_lane(emit: Callable[..., Any], compares: bool = False) -> Any:
    """An intrinsic of two vectors, or of one and a number."""

    def typed(typing: Any, a: Any, b: Any) -> Any:
        kind = _among(a, b)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            both = zip(signature.args, arguments, strict=True)
            return emit(builder, *(_repeated(context, builder, of, value, kind.width) for of, value in both))

        return (Mask(kind.width) if compares else kind)(a, b), generate

    return intrinsic(typed)


def _overload(symbol: Any, of_two: Any) -> None:
    def implementation(a: Any, b: Any) -> Any:
        return (lambda a, b: of_two(a, b)) if _among(a, b) else None

    overload(symbol, inline="always", strict=False)(implementation)


_overload(operator.add, _lane_by_lane(lambda builder, a, b: builder.fadd(a, b)))
_overload(operator.sub, _lane_by_lane(lambda builder, a, b: builder.fsub(a, b)))
_overload(operator.mul, _lane_by_lane(lambda builder, a, b: builder.fmul(a, b)))
_overload(operator.truediv, _lane_by_lane(lambda builder, a, b: builder.fdiv(a, b)))
_overload(operator.gt, _lane_by_lane(lambda builder, a, b: builder.fcmp_ordered(">", a, b), compares=True))
_overload(operator.le, _lane_by_lane(lambda builder, a, b: builder.fcmp_ordered("<=", a, b), compares=True))
_overload(operator.ge, _lane_by_lane(lambda builder, a, b: builder.fcmp_ordered(">=", a, b), compares=True))


def _typed_and(typing: Any, a: Any, b: Any) -> Any:
    return a(a, b), lambda context, builder, signature, arguments: builder.and_(*arguments)


def _typed_choice(typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = zip(signature.args[1:], arguments[1:], strict=True)
        return builder.select(
            arguments[0], *(_repeated(context, builder, of, value, condition.width) for of, value in lanes)
        )

    return Vector(condition.width)(condition, yes, no), generate


_both: Any = intrinsic(_typed_and)
_chosen: Any = intrinsic(_typed_choice)


@overload(operator.and_, inline="always", strict=False)
def _and(a: Any, b: Any) -> Any:
    return (lambda a, b: _both(a, b)) if isinstance(a, Mask) and isinstance(b, Mask) else None


@overload(select, inline="always", strict=False)
def _select(condition: Any, yes: Any, no: Any) -> Any:
    return (lambda condition, yes, no: _chosen(condition, yes, no)) if isinstance(condition, Mask) else None


def _place(context: Any, builder: Any, kinds: Any, arguments: Any, width: int) -> Any:
    """Where a row of an array stands; both come first among the arguments."""
    data = context.make_array(kinds[0])(context, builder, arguments[0]).data
    first = builder.mul(arguments[1], ir.Constant(ir.IntType(64), width))
    return builder.bitcast(builder.gep(data, [first]), ir.VectorType(ir.DoubleType(), width).as_pointer())


def _load(width: int) -> Any:
    def typed(typing: Any, rows: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_place(context, builder, signature.args, arguments, width), align=8)

        return Vector(width)(rows, types.uint64), generate

    return intrinsic(typed)


def _store(width: int) -> Any:
    def typed(typing: Any, rows: Any, row: Any, vector: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[2], _place(context, builder, signature.args, arguments, width), align=8)
            return context.get_dummy_value()

        return types.void(rows, types.uint64, Vector(width)), generate

    return intrinsic(typed)


def _repeat(width: int) -> Any:
    def typed(typing: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _repeated(context, builder, signature.args[0], arguments[0], width)

        return Vector(width)(types.float64), generate

    return intrinsic(typed)


def _lane(typing: Any, vector: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], builder.trunc(arguments[1], ir.IntType(32)))

    return types.float64(vector, types.uint64), generate


def _lanes(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_many(signature.return_type), [float(lane) for lane in range(LINE)])

    return Vector(LINE)(), generate


def _bits(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.bitcast(arguments[0], ir.IntType(mask.width))
        return builder.zext(number, ir.IntType(64))

    return types.uint64(mask), generate


def _highest(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.uint64(types.uint64), generate


line_at, bytes_at = _load(LINE), _load(MEMORY)
"""``line_at(rows, row)``: a row of a contiguous (…, LINE) array; ``bytes_at`` of a (…, MEMORY) one."""
put_line, put_bytes = _store(LINE), _store(MEMORY)
"""``put_line(rows, row, vector)`` stores it."""
line_of, bytes_of = _repeat(LINE), _repeat(MEMORY)
"""``line_of(number)``: the number in all lanes."""
lane: Any = intrinsic(_lane)
"""``lane(vector, at)``: one of its numbers."""
lanes: Any = intrinsic(_lanes)
"""``lanes()``: 0, 1, … of a line."""
bits: Any = intrinsic(_bits)
"""``bits(mask)``: a number whose lowest bit is the first lane."""
highest: Any = intrinsic(_highest)
"""``highest(bits)``: the place of the highest bit of a number other than 0."""
