"""How layouts pass through operators: which layouts of the operands one can work on and what comes out.

Every rule lists choices; the cheapest plan of the whole program decides between them (``planning``). What compilers
agree on bounds the lists: a split that both operands of a contraction carry is kept, an axis that nobody asks for
stays idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lts_bench.cost.choice import Choice, Place
from lts_bench.cost.contraction import contraction
from lts_bench.cost.elementwise import binary, normalised, reduction, unary
from lts_bench.cost.layout import Layout
from lts_bench.cost.programs import BINARY, LINEAR_UNARY, NONLINEAR_UNARY, REDUCTIONS, Operator


def choices(operator: Operator, place: Place, layouts: Sequence[Layout]) -> Iterator[Choice]:
    """The ways to compute an operator whose operands lie in ``layouts``."""
    if operator.kind in ("einsum", "embed"):
        return contraction(operator, place, layouts)
    if operator.kind in BINARY:
        return binary(operator, place, layouts)
    if operator.kind in REDUCTIONS:
        return reduction(operator, place, layouts[0])
    if operator.kind in LINEAR_UNARY + NONLINEAR_UNARY:
        return unary(operator, place, layouts[0])
    return normalised(operator, place, layouts[0])
