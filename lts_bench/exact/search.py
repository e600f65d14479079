"""Best-first search for the strategy of the highest goodput, which ends with a proof.

Every cell, strategies of the same degrees with a batch size between two rungs, has a bound on its goodput. The cell of
the highest bound is bounded tighter, then searched for what exceeds a goodput just below its bound, and so on down,
until no bound is above the best strategy found.
"""

from __future__ import annotations

import heapq

import numpy as np

from lts_bench.cost.model import CostModel
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.exact.cells import Cell, Place
from lts_bench.exact.floors import Floors, rung_bounds
from lts_bench.exact.labels import Enumeration, TooManyError
from lts_bench.exact.part import Part
from lts_bench.exact.relaxation import Choices, relaxed
from lts_bench.space.decisions import Space

FIRST_MARGIN, WIDENING = 0.02, 4.0
"""How far below a cell's bound its first search goes, and the factor from one to the next."""
NARROWING, LEAST_MARGIN = 8.0, 0.001
"""The factor from one to the next where a search takes too long, and the least margin."""
PATIENCE = 16
"""Searches that may take too long before all is left with its bound."""
KEPT = 16
"""Cells whose tables are kept for their next search."""
SAME = 1e-9
"""Relative difference of goodputs within rounding."""

Entry = tuple[float, float, Place]
"""The negative of a cell's bound, the margin of its next search or 0 to relax it, and the cell."""


class Search(Part):
    """What is known so far of the optimum.

    Attributes:
        goodput: of the best strategy found, ``vector``, None for none.
        bound: goodput per NPU that no strategy exceeds, once the search has run.
    """

    def __init__(self, cost: CostModel, space: Space) -> None:
        super().__init__(cost, space)
        self.goodput = 0.0
        self.vector: IntArray | None = None
        self.bound = 0.0
        self._too_long = 0
        self._kept: dict[Place, Enumeration] = {}

    def offer(self, vectors: IntArray) -> FloatArray:
        """Evaluate (n, decisions) vectors and keep the best; (n,) goodputs."""
        goodputs: FloatArray = self.cost.evaluate(vectors)["goodput_per_npu"]
        at = int(goodputs.argmax())
        if goodputs[at] > self.goodput:
            self.goodput, self.vector = float(goodputs[at]), vectors[at]
        return goodputs

    def run(self) -> None:
        """Search until the best strategy is proven to be the best."""
        bounds = rung_bounds(self.program, Floors.of(self.cost, self.streams), self.goodput)
        cells: list[Entry] = [
            (-float(bounds[degrees, rung]), 0.0, self._place(degrees, rung))
            for degrees, rung in np.argwhere(bounds > self.goodput).tolist()
        ]
        heapq.heapify(cells)
        while cells and -cells[0][0] > self.goodput:
            if self._too_long > PATIENCE:
                self.bound = max(self.bound, -cells[0][0])
                break
            for entry in self._examined(*heapq.heappop(cells)):
                if -entry[0] > self.goodput:
                    heapq.heappush(cells, entry)
        self.bound = max(self.bound, self.goodput)

    def _place(self, degrees: int, rung: int) -> Place:
        ladder = self.program.ladder
        return Place(degrees, rung, int(ladder[rung]), int(ladder[min(rung + 1, len(ladder) - 1)]))

    def _examined(self, negative: float, margin: float, place: Place) -> list[Entry]:
        """What is left to do of a cell.

        It is relaxed first, then searched down to a margin below its bound. Where that takes too long it is halved, if
        its batch sizes can be told apart, else searched down to a smaller margin, and left with its bound in the end.
        """
        enumeration = self._kept.pop(place, None) or self._relaxed(place)
        if margin == 0:
            self._keep(place, enumeration)
            return [(-enumeration.bound, FIRST_MARGIN, place)]
        enumeration.goodput = max(self.goodput, -negative * (1 - margin))
        try:
            found = self._searched(enumeration)
        except TooManyError:
            self._too_long += 1
            if place.low < place.high and not enumeration.cell.pipelined:
                return [(negative, 0.0, half) for half in place.halves]
            self._keep(place, enumeration)
            if margin > LEAST_MARGIN:
                return [(negative, margin / NARROWING, place)]
            self.bound = max(self.bound, -negative)
            return []
        self._keep(place, enumeration)
        return [] if found else [(-enumeration.goodput, WIDENING * margin, place)]

    def _keep(self, place: Place, enumeration: Enumeration) -> None:
        self._kept[place] = enumeration
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]

    def _relaxed(self, place: Place) -> Enumeration:
        degrees = place.degrees
        plan, cell = self.plan(degrees), Cell(self.program, place)

        def found(choices: Choices) -> None:
            self.offer(self.vectors(degrees, choices))

        return relaxed(cell, plan, self.table(cell), self.buffers(degrees, plan), self.goodput, found)

    def _searched(self, enumeration: Enumeration) -> bool:
        """Whether the cell holds strategies above the enumeration's goodput; they are offered then.

        A strategy may fall short of its goodput in the cell where another rung is its best.
        """
        labels = enumeration.labels()
        if len(labels.entry):
            goodputs = enumeration.goodputs(labels.sums, labels.buffers)
            real = self.offer(self.vectors(enumeration.cell.degrees, labels.choices))
            self.bound = max(self.bound, float(goodputs[goodputs > real * (1 + SAME)].max(initial=0.0)))
        return len(labels.entry) > 0
