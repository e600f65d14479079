"""What the rows of a list of degrees are priced with: decisions by name, and prices by tensor-parallel mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.edges import MeshPrices
from lts_bench.cost.graph import Block
from lts_bench.cost.mesh import Mesh, mesh_key
from lts_bench.cost.nodes import Setting
from lts_bench.cost.rows import Key, distinct, distinct_rows
from lts_bench.space.degrees_table import DegreesTable
from lts_bench.space.operators import Operator
from lts_bench.space.rules import OperatorRules
from lts_bench.space.strategy import Degrees

IntArray = NDArray[np.int64]


class Pricing:
    """Decisions and meshes of a list of degrees.

    Attributes:
        columns: (degrees,) every field of the degrees, and ``tp`` and ``stage``, by name.
        two_axes: (degrees,) 1 where the mesh has two axes.
        decisions: column of every operator's decision in a vector, by key.
    """

    def __init__(self, setting: Setting, degrees: Sequence[Degrees]) -> None:
        self.setting = setting
        self.degrees = DegreesTable.of(degrees)
        self.rules = OperatorRules(setting.model)
        self.decisions = {operator.key: column for column, operator in enumerate(self.rules.operators, start=1)}
        self.columns = dict(self.degrees.columns)
        self.columns["tp"] = self.columns["tx"] * self.columns["ty"]
        self.columns["stage"] = self.columns["dp"] * self.columns["tp"]
        self.two_axes = (self.columns["tx"] > 1).astype(np.int64)
        self._meshes = [self._mesh_prices(axes) for axes in (1, 2)]

    def _mesh_prices(self, axes: int) -> tuple[MeshPrices | None, IntArray]:
        """Prices of the meshes with so many axes, and every degrees' key among them (-1 for none)."""
        mine = np.flatnonzero(self.two_axes == axes - 1)
        keys, rows = self.distinct_keys(mine, ("tx", "ty", "stage"), lambda d: mesh_key(self.setting.cluster, d))
        place = np.full(len(self.degrees), -1, dtype=np.int64)
        place[mine] = rows
        if not keys:
            return None, place
        mesh = Mesh(self.setting.network, keys, axes)
        return MeshPrices(self.setting, mesh, self.rules), place

    def meshes(self) -> Iterator[tuple[MeshPrices, IntArray]]:
        """Prices of the meshes that the degrees have, each with (degrees,) their keys, -1 for none."""
        for prices, place in self._meshes:
            if prices is not None:
                yield prices, place

    def distinct_keys(
        self, mine: IntArray, names: Sequence[str], key: Callable[[Degrees], Key]
    ) -> tuple[list[Key], IntArray]:
        """``distinct`` keys of some degrees; one is worked out for all that agree in the named columns."""
        examples, shapes = distinct_rows(np.stack([self.columns[name][mine] for name in names], axis=1))
        keys, rows = distinct(key(self.degrees[index]) for index in mine[examples].tolist())
        return keys, rows[shapes]

    def operator(self, block: Block, name: str, *, target: bool = False) -> Operator:
        """The decision behind an operator's name in a block; ``target`` for the later kind of a transition."""
        return self.rules.operators[self.decisions[block.key(name, target=target)] - 1]
