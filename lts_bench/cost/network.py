"""Prices of groups of devices on one cluster, each worked out once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import regimes
from lts_bench.cost.exchange import Direction, Mode, exchange
from lts_bench.cost.groups import Group
from lts_bench.cost.rows import distinct
from lts_bench.specs.cluster import Cluster

FloatArray = NDArray[np.float64]


class Network:
    """The networks of a cluster under a communication library.

    Attributes:
        library: whose all-reduce kernels are used; None for the vendor's.
    """

    def __init__(self, cluster: Cluster, library: str | None) -> None:
        self.cluster, self.library = cluster, library
        self._regimes: dict[Group, FloatArray] = {}

    def regimes(self, groups: Sequence[Group]) -> FloatArray:
        """(groups, kinds, regimes, 2) prices of every kind of collective."""
        found, rows = distinct(groups)
        for group in found:
            if group not in self._regimes:
                self._regimes[group] = regimes(self.cluster, group, self.library)
        return np.array([self._regimes[group] for group in found])[rows]

    def exchanges(self, groups: Sequence[Group], mode: Mode, direction: Direction, top_k: float) -> FloatArray:
        """(groups, regimes, 2) prices of one way of an expert exchange."""
        found, rows = distinct(groups)
        return np.array([exchange(self.cluster, group, mode, direction, top_k) for group in found])[rows]
