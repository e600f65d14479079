"""Step times and the KV room of a strategy, tabulated with the cost model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel, cost_of
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import LONE_PREFILL, PREFILL, Phases, batch_ladder
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

    def stage_seconds(self, isl: int, batches: NDArray[np.int64], prompts: int = 1) -> FloatArray:
        """(2, phases) seconds of the heaviest stage and of all; decode is at a context of isl + 1 tokens."""
        phases = Phases(Workload(isl, osl=2), batches, mixed=True, prompts=prompts)
        cost, vector = self.cost(phases)
        total, heaviest = cost.stage_seconds(vector)
        return np.array([heaviest, total])


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
    tokens, batches = token_grid(longest), np.union1d(batch_ladder(rows), [SHORT_PROMPT])
    whole = np.stack([served.stage_seconds(int(n), batches) for n in tokens], axis=-1)
    decode, rung = Phases(served.workload, batches).decode, int(np.searchsorted(batches, SHORT_PROMPT))
    apart = [
        served.stage_seconds(SHORT_PROMPT, batches[:1], many) if many > 1 else whole[:, :, at]
        for at, many in enumerate((tokens // SHORT_PROMPT).tolist())
    ]
    linear = np.stack([each[:, [LONE_PREFILL, PREFILL]] for each in apart], axis=-1)
    attention = whole[:, LONE_PREFILL] - linear[:, 0]
    # As many rows as tokens, and a multiple of a tile of a matrix product: a token more would cost a whole tile.
    at, twice = (int(np.searchsorted(tokens, n)) for n in (SHORT_PROMPT, 2 * SHORT_PROMPT))
    marginal = whole[:, decode.stop + rung, at] - whole[:, decode.start + rung, at]
    beside = marginal - (linear[:, 0, twice] - linear[:, 0, at])
    kinds = [linear[:, 0], linear[:, 1], attention / tokens, np.broadcast_to(beside[:, None], attention.shape)]
    prefill = np.ascontiguousarray(np.stack(kinds, axis=1))
    grid = np.array([tokens, tokens + 1.0])
    return StepTimes(grid, _every_row(batches, whole[:, decode], rows), prefill)


def _every_row(batches: NDArray[np.int64], rungs: FloatArray, rows: int) -> FloatArray:
    """(2, rows + 1, contexts): linear between the rungs of the ladder, 0 without rows."""
    every = np.zeros((2, rows + 1, rungs.shape[2]))
    for row in range(1, rows + 1):
        above = int(np.searchsorted(batches, row))
        below = above if batches[above] == row else above - 1
        share = (row - batches[below]) / max(batches[above] - batches[below], 1)
        every[:, row] = rungs[:, below] + share * (rungs[:, above] - rungs[:, below])
    return every
