"""Step times and the KV room of a strategy, tabulated with the cost model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import LONE_PREFILL, PREFILL, Phases, batch_ladder
from lts_bench.cost.rounds import stage_seconds
from lts_bench.serving.step_times import StepTimes
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload

FloatArray = NDArray[np.float64]
SHORT_PROMPT = 64
"""Tokens of a prompt whose attention is negligible: prompts of this length give the time of tokens without it."""


@dataclass(frozen=True, eq=False)
class Served:
    """A strategy that serves a model under an engine.

    Attributes:
        workload: mean lengths, and the memory to plan with.
    """

    model: Model
    cluster: Cluster
    engine: Engine
    workload: Workload
    strategy: Strategy

    def cost(self, phases: Phases) -> tuple[CostModel, NDArray[np.int64]]:
        """The cost of this strategy in the given phases, and its vector."""
        strategy = self.strategy
        setting = Setting(
            self.model, self.cluster, self.engine, phases, strategy.redundant_experts, strategy.padding
        )
        cost = CostModel(setting, [strategy.degrees], strategy.stages)
        return cost, np.array([0, *(each.index(strategy.sharding[each.key]) for each in cost.tables.rules.operators)])

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

    def _stage_seconds(self, isl: int, batches: NDArray[np.int64], prompts: int = 1) -> FloatArray:
        """(2, phases) of the heaviest stage and of all; decode is at a context of isl + 1 tokens."""
        workload = replace_lengths(self.workload, isl, 2)
        total, heaviest = stage_seconds(*self.cost(Phases(workload, batches, prompts=prompts)))
        return np.array([heaviest, total])


def replace_lengths(workload: Workload, isl: int, osl: int) -> Workload:
    """The workload with other lengths."""
    return Workload(isl, osl, workload.slo, workload.memory_fraction, workload.free_memory_fraction)


def token_grid(longest: int) -> NDArray[np.int64]:
    """Powers of 2 up to ``SHORT_PROMPT``, then multiples of it in steps of about √2 until ``longest`` is covered."""
    short = 2 ** np.arange(SHORT_PROMPT.bit_length())
    steps = 2 * max(int(np.ceil(np.log2(longest / SHORT_PROMPT))), 1) if longest > SHORT_PROMPT else 2
    return np.unique(np.concatenate([short, SHORT_PROMPT * np.rint(2 ** (np.arange(steps + 1) / 2)).astype(np.int64)]))


def build_step_times(served: Served, *, rows: int, longest: int) -> StepTimes:
    """Tabulate the steps of a replica.

    Args:
        served: the strategy.
        rows: most rows that a rank decodes in a step.
        longest: most tokens of a sequence, or of a step that prefills.
    """
    tokens, batches = token_grid(longest), batch_ladder(rows)
    whole = np.stack([served._stage_seconds(int(n), batches) for n in tokens], axis=-1)
    prompts = [int(n) // SHORT_PROMPT for n in tokens]
    apart = [
        served._stage_seconds(SHORT_PROMPT, batches[:1], many) if many > 1 else whole[:, :, at]
        for at, many in enumerate(prompts)
    ]
    linear = np.stack([each[:, [LONE_PREFILL, PREFILL]] for each in apart], axis=-1)
    attention = (whole[:, LONE_PREFILL] - linear[:, 0]) / tokens
    rungs = whole[:, Phases(served.workload, batches).decode]
    return StepTimes(
        np.array([tokens, tokens + 1.0]),
        _every_row(batches, rungs, rows),
        np.ascontiguousarray(np.concatenate([linear, attention[:, None]], axis=1)),
    )


def _every_row(batches: NDArray[np.int64], rungs: FloatArray, rows: int) -> FloatArray:
    """(2, rows + 1, contexts): linear between the rungs of the ladder, 0 without rows."""
    every = np.zeros((2, rows + 1, rungs.shape[2]))
    for row in range(1, rows + 1):
        above = int(np.searchsorted(batches, row))
        below = above if batches[above] == row else above - 1
        share = (row - batches[below]) / max(batches[above] - batches[below], 1)
        every[:, row] = rungs[:, below] + share * (rungs[:, above] - rungs[:, below])
    return every
