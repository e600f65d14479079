"""Sums of table rows as vectors: eight numbers, a cache line, are loaded, scaled, added and stored at once.

The compiler leaves sums this short to scalar instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from lts_bench.cost.rows import LINE, MEMORY


def _add_line(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any) -> Any:
    return _signature(sums, rows), _sum_of(LINE)


def _add_two_lines(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any, other: Any) -> Any:
    return _signature(sums, rows, types.uint64), _sum_of(LINE, added=(4, 5))


def _add_four_lines(
    typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any, second: Any, third: Any, fourth: Any
) -> Any:
    return _signature(sums, rows, types.uint64, types.uint64, types.uint64), _sum_of(LINE, added=(4, 5, 6, 7))


def _begin_line(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any, start: Any) -> Any:
    return _signature(sums, rows, types.float64), _sum_of(LINE, start=5)


def _begin_two_lines(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any, other: Any, start: Any) -> Any:
    return _signature(sums, rows, types.uint64, types.float64), _sum_of(LINE, added=(4, 5), start=6)


def _add_two_bytes(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any, other: Any) -> Any:
    return _signature(sums, rows, types.uint64), _sum_of(MEMORY, added=(4, 5))


def _add_bytes(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any) -> Any:
    return _signature(sums, rows), _sum_of(MEMORY)


def _signature(sums: Any, rows: Any, *last: Any) -> Any:
    return types.void(sums, types.uint64, types.float64, rows, types.uint64, *last)


def _sum_of(width: int, added: tuple[int, ...] = (4,), start: int | None = None) -> Any:
    """The code generator for rows of so many numbers; which arguments are the rows to add, and the start if any."""
    vector = ir.VectorType(ir.DoubleType(), width)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def place(array: int, row: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            first = builder.mul(arguments[row], ir.Constant(ir.IntType(64), width))
            return builder.bitcast(builder.gep(data, [first]), vector.as_pointer())

        def repeated(argument: int) -> Any:
            numbers = ir.Constant(vector, ir.Undefined)
            for lane in range(width):
                numbers = builder.insert_element(numbers, arguments[argument], ir.Constant(ir.IntType(32), lane))
            return numbers

        target, factor = place(0, 1), repeated(2)
        total = builder.load(target, align=8) if start is None else repeated(start)
        for row in added:
            total = builder.fadd(total, builder.fmul(factor, builder.load(place(3, row), align=8)))
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return generate


add_line: Any = intrinsic(_add_line)
"""``add_line(sums, at, factor, rows, row)``: ``sums[at] += factor · rows[row]`` in contiguous (…, LINE) arrays."""
add_two_lines: Any = intrinsic(_add_two_lines)
"""The same of two rows, the second one last: the sum is read and written once."""
add_four_lines: Any = intrinsic(_add_four_lines)
"""The same of four rows."""
begin_line: Any = intrinsic(_begin_line)
"""``begin_line(sums, at, factor, rows, row, start)``: ``sums[at] = start + factor · rows[row]``."""
begin_two_lines: Any = intrinsic(_begin_two_lines)
"""``begin_line`` of two rows, the second one before the start."""
add_bytes: Any = intrinsic(_add_bytes)
"""``add_line`` in (…, MEMORY) arrays."""
add_two_bytes: Any = intrinsic(_add_two_bytes)
"""``add_two_lines`` in (…, MEMORY) arrays."""
