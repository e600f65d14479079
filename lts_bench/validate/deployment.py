"""A model under an engine at given batch sizes: the rounds and the KV room that measured runs are predicted from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.cost.rounds import capacity, rounds
from lts_bench.cost.steady import Round, round_at
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

    def at(self, batches: Sequence[int]) -> list[Round]:
        """Rounds at ascending batch sizes of a rank."""
        cost = self._cost(batches)
        found = rounds(cost, self._vector(cost))
        return [round_at(found, rung) for rung in range(len(batches))]

    @cached_property
    def capacity(self) -> int:
        """Largest batch of a rank that the KV room holds, at most the engine's; 0 where the model does not fit."""
        cost = self._cost([1])
        return capacity(cost, self._vector(cost))

    def _cost(self, batches: Sequence[int]) -> CostModel:
        phases = replace(Phases.of(self.workload, self.engine), batches=np.array(batches), prompts=self.prompts)
        setting = Setting(self.model, self.cluster, self.engine, phases, padding=True)
        return CostModel(setting, [self.strategy.degrees], self.strategy.stages)

    def _vector(self, cost: CostModel) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        choices = [each.index(self.strategy.sharding[each.key]) for each in cost.tables.rules.operators]
        return np.array([0, *choices])


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
