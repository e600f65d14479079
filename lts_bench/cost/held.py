"""Named tuples of arrays held on the compiled side: a call with one need not convert dozens of arrays anew.

What is held counts no references, which for a single strategy would take longer than its sums: whoever holds a tuple
keeps it as long.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.experimental import structref
from numba.extending import intrinsic

from lts_bench.cost.compiled import compiled


class Held(structref.StructRefProxy):
    """A reference to a named tuple of ``arrays`` for compiled functions."""

    arrays: Any


@structref.register
class HeldType(types.StructRef):
    """The type of ``Held`` in compiled functions."""


structref.define_boxing(HeldType, Held)  # type: ignore[no-untyped-call]
structref.define_constructor(Held, HeldType, ["arrays"])  # type: ignore[no-untyped-call]


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value of a type whose arrays do not know who owns their memory, as if it had come from elsewhere."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo, array.parent = (ir.Constant(each.type, None) for each in (array.meminfo, array.parent))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        for at, each in enumerate(members):
            part = _without_owner(context, builder, each, builder.extract_value(value, at))
            value = builder.insert_value(value, part, at)
    return value


def _borrowed(typing: Any, arrays: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return arrays(arrays), generate


borrowed: Any = intrinsic(_borrowed)
"""``borrowed(arrays)``: the same arrays, whose references are not counted."""


@compiled
def hold(arrays: Any) -> Held:
    """Hold a named tuple of arrays and numbers; valid as long as the caller keeps the tuple."""
    return Held(borrowed(arrays))  # type: ignore[no-untyped-call]
