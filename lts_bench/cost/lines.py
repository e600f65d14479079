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


def _add_bytes(typing: Any, sums: Any, at: Any, factor: Any, rows: Any, row: Any) -> Any:
    return _signature(sums, rows), _sum_of(MEMORY)


def _signature(sums: Any, rows: Any) -> Any:
    return types.void(sums, types.uint64, types.float64, rows, types.uint64)


def _sum_of(width: int) -> Any:
    """The code generator for rows of so many numbers."""
    vector = ir.VectorType(ir.DoubleType(), width)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def place(array: int, row: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            first = builder.mul(arguments[row], ir.Constant(ir.IntType(64), width))
            return builder.bitcast(builder.gep(data, [first]), vector.as_pointer())

        factors = ir.Constant(vector, ir.Undefined)
        for lane in range(width):
            factors = builder.insert_element(factors, arguments[2], ir.Constant(ir.IntType(32), lane))
        target, source = place(0, 1), place(3, 4)
        scaled = builder.fmul(factors, builder.load(source, align=8))
        builder.store(builder.fadd(builder.load(target, align=8), scaled), target, align=8)
        return context.get_dummy_value()

    return generate


add_line: Any = intrinsic(_add_line)
"""``add_line(sums, at, factor, rows, row)``: ``sums[at] += factor · rows[row]`` in contiguous (…, LINE) arrays."""
add_bytes: Any = intrinsic(_add_bytes)
"""The same in (…, MEMORY) arrays."""
