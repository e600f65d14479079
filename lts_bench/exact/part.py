"""One space with its cost model as the exact search sees it: choices on a mesh, and the vectors that they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import BUFFER
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.cost.rows import ILLEGAL_SECONDS
from lts_bench.exact.cells import Cell
from lts_bench.exact.factors import Factors
from lts_bench.exact.plan import Plan
from lts_bench.exact.relaxation import Choices
from lts_bench.space.decisions import Space


class Part:
    """A space and its cost.

    Attributes:
        streams: the variables that hold a model's parts together.
        plans: of elimination, by the number of axes.
    """

    def __init__(self, cost: CostModel, space: Space) -> None:
        self.cost, self.space, self.program = cost, space, cost.program
        self.streams = frozenset(at for at, name in enumerate(space.names) if name.endswith(".stream"))
        self.plans = {axes: Plan.of(Factors.of(cost, axes), self.streams) for axes in (1, 2)}

    def plan(self, degrees: int) -> Plan:
        """The plan of the mesh of some degrees."""
        return self.plans[int(self.program.two_axes[degrees]) + 1]

    def table(self, cell: Cell) -> FloatArray:
        """(entries, dimensions) of a cell with its factors filled; what the space does not admit takes for ever."""
        plan = self.plan(cell.degrees)
        table = cell.table(plan)
        table[plan.forbidden(self.allowed(cell.degrees, plan))] = ILLEGAL_SECONDS
        return table

    def allowed(self, degrees: int, plan: Plan) -> NDArray[np.bool_]:
        """(variables, choices) that the space admits; on a mesh of one axis a choice is its letter there."""
        mask, sizes = self.space.masks[self.space.mask_rows[degrees]], plan.factors.sizes
        allowed = np.zeros((len(sizes), max(sizes)), dtype=np.bool_)
        for variable, size in enumerate(sizes[1:], start=1):
            allowed[variable, :size] = mask[variable, self.choices_of(degrees, variable, np.arange(size))]
        return allowed

    def choices_of(self, degrees: int, variable: int, at: IntArray) -> IntArray:
        """Choices of an operator that (n,) choices on the mesh of the degrees are."""
        operator = self.space.operators[variable - 1]
        idle = 0 if self.program.two_axes[degrees] else operator.choices.index(("R",) * operator.axes)
        return at + idle - idle % len(operator.letters)

    def buffers(self, degrees: int, plan: Plan) -> FloatArray:
        """(variables, choices) bytes of buffers that every choice needs, infinite where there is no choice."""
        program, sizes = self.program, np.array(plan.factors.sizes)
        buffers = np.zeros((len(sizes), sizes.max()))
        for k, variable in enumerate(program.operators.source):
            rows = program.operators.base[degrees, k] + np.arange(sizes[variable])
            own = buffers[variable, : sizes[variable]]
            np.maximum(own, program.memory[rows, BUFFER], out=own)
        buffers[np.arange(sizes.max()) >= sizes[:, None]] = np.inf
        return buffers

    def vectors(self, degrees: int, choices: Choices) -> IntArray:
        """(n, decisions) vectors of (n, variables) choices on the mesh of the degrees."""
        vectors = choices.astype(np.int64)
        vectors[:, 0] = degrees
        for variable in range(1, vectors.shape[1]):
            vectors[:, variable] = self.choices_of(degrees, variable, vectors[:, variable])
        return vectors
