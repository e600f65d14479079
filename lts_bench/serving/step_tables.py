"""Step times and the KV room of a strategy, tabulated with the cost model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel, cost_of
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import LONE_PREFILL, PREFILL, Phases
from lts_bench.serving.step_times import StepTimes
from lts_bench.serving.steps import SHORT, SHORT_PROMPT, WHOLE, Steps
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a strategy serves.

    Attributes:
        workload: mean lengths, and the memory to plan with.
    """

    model: Model
    cluster: Cluster
    engine: Engine
    workload: Workload


@dataclass(frozen=True, eq=False)
class Served(Place):
    """A strategy that serves a model under an engine."""

    strategy: Strategy

    def cost(self, phases: Phases) -> tuple[CostModel, NDArray[np.int64]]:
        """The cost of this strategy in the given phases, and its vector."""
        strategy = self.strategy
        setting = Setting(self.model, self.cluster, self.engine, phases, strategy.redundant_experts, strategy.padding)
        return cost_of(setting, strategy)

    def kv_tokens(self) -> int:
        """Tokens of KV cache that a data-parallel rank has room for beside weights and buffers; 0 where none.

        Bytes of a token are those of a sequence of mean lengths, so states and windows count as if spread over it.
        """
        phases, batch = Phases.of(self.workload, self.engine), self.engine.max_batch
        cost, vector = self.cost(phases)
        parts = cost.memory_parts(vector, batch)
        tokens = phases.full_context if self.engine.kv_reservation == "full" else phases.mean_context
        room = parts["limit"] - parts["weights"] - parts["buffers"]
        return max(int(room / parts["kv"] * batch * self.strategy.degrees.pp * tokens), 0) if parts["kv"] else 2**62

    def seconds_of(self, steps: Steps) -> FloatArray:
        """(2, phases) seconds of the heaviest stage and of all."""
        cost, vector = self.cost(steps)
        total, heaviest = cost.stage_seconds(vector)
        return np.array([heaviest, total])


def build_step_times(served: Served, *, rows: int, longest: int) -> StepTimes:
    """Tabulate the steps of a replica.

    Args:
        served: the strategy.
        rows: most rows that a rank decodes in a step.
        longest: most tokens of a sequence, or of a step that prefills.
    """
    steps = Steps.up_to(served.workload, rows=rows, longest=longest)
    prefills, decodes, mixed = steps.arranged(served.seconds_of(steps))
    every, lone = prefills[:, SHORT, PREFILL], prefills[:, SHORT, LONE_PREFILL]
    attention = prefills[:, WHOLE, LONE_PREFILL] - lone
    # As many rows as tokens, and a multiple of a tile of a matrix product: a token more would cost a whole tile.
    rung, at, twice = (
        int(np.searchsorted(*each))
        for each in ((steps.rungs, SHORT_PROMPT), (steps.grid, SHORT_PROMPT), (steps.grid, 2 * SHORT_PROMPT))
    )
    beside = mixed - decodes[:, rung, at] - (lone[:, twice] - lone[:, at])
    kinds = [lone, every, attention / steps.grid, np.broadcast_to(beside[:, None], attention.shape)]
    prefill = np.ascontiguousarray(np.stack(kinds, axis=1))
    grid = np.array([steps.grid, steps.grid + 1.0])
    return StepTimes(grid, _every_row(steps.rungs, decodes, rows), prefill)


def _every_row(batches: NDArray[np.int64], rungs: FloatArray, rows: int) -> FloatArray:
    """(2, rows + 1, contexts): linear between the rungs of the ladder, 0 without rows."""
    every = np.zeros((2, rows + 1, rungs.shape[2]))
    for row in range(1, rows + 1):
        above = int(np.searchsorted(batches, row))
        below = above if batches[above] == row else above - 1
        share = (row - batches[below]) / max(batches[above] - batches[below], 1)
        every[:, row] = rungs[:, below] + share * (rungs[:, above] - rungs[:, below])
    return every
