"""Meshes of one or two tensor-parallel axes, many at once: sizes and the price of every group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.groups import Group, place_group
from lts_bench.cost.network import Network
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster

FloatArray = NDArray[np.float64]


class MeshKey(NamedTuple):
    """What the cost of tensor-parallel operators depends on: axis sizes and where their groups lie."""

    tx: int
    ty: int
    x: Group
    y: Group
    xy: Group


def mesh_key(cluster: Cluster, degrees: Degrees) -> MeshKey:
    """The key of a strategy's tensor-parallel mesh."""
    tx, ty, stage = degrees.tx, degrees.ty, degrees.stage
    return MeshKey(
        tx,
        ty,
        place_group(cluster, stage, tx, ty),
        place_group(cluster, stage, ty, 1),
        place_group(cluster, stage, tx * ty, 1),
    )


class Mesh:
    """Keys with the same number of axes: 1 (only y) or 2 (x and y, y innermost)."""

    def __init__(self, network: Network, keys: Sequence[MeshKey], axes: int) -> None:
        self.axes = axes
        self.keys = tuple(keys)
        self.sizes = np.array([(key.tx, key.ty)[-axes:] for key in keys], dtype=np.float64).reshape(-1, axes)
        groups: dict[tuple[int, ...], list[Group]] = {(0,): [key.y for key in keys]}
        if axes == 2:
            groups = {
                (0,): [key.x for key in keys],
                (1,): [key.y for key in keys],
                (0, 1): [key.xy for key in keys],
            }
        self._regimes = {name: network.regimes(members) for name, members in groups.items()}
        self._products: dict[tuple[int, ...], FloatArray] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def regimes(self, axes: Sequence[int]) -> FloatArray:
        """(keys, kinds, regimes, 2) prices of the group over the given axes."""
        return self._regimes[tuple(sorted(axes))]

    def product(self, axes: Sequence[int]) -> FloatArray:
        """(keys,) devices along the given axes together."""
        if tuple(axes) not in self._products:
            self._products[tuple(axes)] = np.prod(self.sizes[:, list(axes)], axis=1)
        return self._products[tuple(axes)]
