"""A model under an engine at given batch sizes: the rounds and the KV room that measured runs are predicted from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel, cost_of
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.cost.steady import Round
from lts_bench.space.check import check_strategy
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload
from lts_bench.validate.table import SkipError


@dataclass(frozen=True, eq=False)
class Deployment:
    """A model served in Megatron's sharding.

    Attributes:
        prompts: prompts that a rank prefills in one step.
    """

    model: Model
    cluster: Cluster
    engine: Engine
    workload: Workload
    strategy: Strategy
    prompts: int = 1

    def at(self, batch: int) -> Round:
        """The round at a batch size of a rank."""
        cost, vector = self._cost(batch, mixed=self.engine.mixed_prefill)
        return Round(*(float(each[0]) for each in cost.rounds(vector)))

    def prompt_seconds(self, batch: int) -> float:
        """One prompt of a rank through all stages in a step of its own, beside those of the other ranks."""
        cost, vector = self._cost(batch, mixed=False)
        return float(cost.rounds(vector).prefill[0])

    @cached_property
    def capacity(self) -> int:
        """Largest batch of a rank that the KV room holds, at most the engine's; 0 where the model does not fit."""
        cost, vector = self._cost(1, mixed=self.engine.mixed_prefill)
        return cost.capacity(vector)

    @property
    def largest_batch(self) -> int:
        """The capacity.

        Raises:
            SkipError: if not one sequence fits.
        """
        if self.capacity == 0:
            raise SkipError("the weights and one sequence exceed the memory")
        return self.capacity

    def _cost(self, batch: int, *, mixed: bool) -> tuple[CostModel, NDArray[np.int64]]:
        phases = Phases(self.workload, np.array([batch]), mixed, self.prompts)
        setting = Setting(self.model, self.cluster, self.engine, phases, padding=self.strategy.padding)
        return cost_of(setting, self.strategy)


def megatron(model: Model, cluster: Cluster, degrees: Mapping[str, int]) -> Strategy:
    """Megatron's sharding at the given tp, dp and pp (replicas, ep, etp), dimensions that do not divide padded.

    Raises:
        SkipError: if no such strategy is legal.
    """
    devices = math.prod(degrees.get(axis, 1) for axis in ("tp", "dp", "pp"))
    layers = len(model.layers)
    # Before anything of their size is made.
    if devices > cluster.devices:
        raise SkipError(f"tp · dp · pp = {devices} exceeds the {cluster.devices} devices")
    if degrees.get("pp", 1) > layers:
        raise SkipError(f"pp {degrees['pp']} exceeds the model's {layers} layers")
    checked = check_strategy({"replicas": 1, "padding": True, **degrees}, model, cluster)
    if checked.violations:
        raise SkipError(checked.violations[0].message)
    return checked.strategy
