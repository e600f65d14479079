"""The cost model of a task: tables built once, evaluation of any number of strategies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.best_batch import taken
from lts_bench.cost.evaluator import Evaluator
from lts_bench.cost.nodes import KV_FULL, KV_MEAN, WEIGHTS, Setting
from lts_bench.cost.program import build_program
from lts_bench.cost.steady import Round
from lts_bench.cost.tables import Tables
from lts_bench.cost.vectorised import Sums
from lts_bench.space.strategy import Degrees, Strategy

COST_MODEL_VERSION = "3"
"""Changes whenever any score may."""


class CostModel:
    """Scores vectors of decisions for one list of degrees; ``few`` is as the evaluator's."""

    def __init__(
        self,
        setting: Setting,
        degrees: Sequence[Degrees],
        stages: tuple[int, ...] | None = None,
        *,
        few: bool = False,
    ) -> None:
        self.setting = setting
        self.tables = Tables(setting, degrees, stages)
        self.program = build_program(self.tables)
        self._evaluator = Evaluator(self.program, few=few)

    def evaluate(self, vectors: NDArray[np.int64]) -> NDArray[np.void]:
        """(n,) answers of (n, decisions) vectors, illegal ones included."""
        return self._evaluator.evaluate(vectors)

    def raw(self, vectors: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n, columns of ``evaluator``) every number of an evaluation."""
        return self._evaluator.raw(vectors)

    def stage_seconds(self, vector: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """((phases,) all stages, (phases,) the heaviest stage) of a legal vector."""
        sums = Sums.of(self.program, vector[None])
        return sums.total[0], sums.heaviest[0]

    def rounds(self, vector: NDArray[np.int64]) -> Round:
        """The (rungs,) rounds of a legal vector."""
        return taken(Sums.of(self.program, vector[None]).rounds, 0)

    def capacity(self, vector: NDArray[np.int64]) -> int:
        """Largest batch of a rank within the memory, at most the engine's; 0 where one sequence does not fit."""
        return int(min(Sums.of(self.program, vector[None]).replica.capacity[0], self.setting.engine.max_batch))

    def memory_parts(self, vector: NDArray[np.int64], batch: float) -> dict[str, float]:
        """Bytes of the fullest device at a batch size, and how long one sequence may get.

        ``longest_sequence_tokens`` is what fits beside the weights, buffers aside, at the KV bytes of a token.
        """
        program, sums = self.program, Sums.of(self.program, vector[None])
        stages, pp = sums.stage_bytes[0], program.pp[int(vector[0])]
        cache = np.maximum(batch * pp * stages[:, KV_MEAN], stages[:, KV_FULL])
        fullest = int((stages[:, WEIGHTS] + cache).argmax())
        weights, whole = stages[fullest, WEIGHTS] + program.fixed_bytes, stages[fullest, KV_FULL]
        room = max(program.rules.memory_limit - weights, 0.0)
        context = self.setting.phases.full_context
        return {
            "weights": float(weights),
            "kv": float(cache[fullest]),
            "buffers": float(sums.buffers[0]),
            "limit": float(program.rules.memory_limit),
            "kv_per_sequence": float(whole),
            "longest_sequence_tokens": float(np.floor(room / whole * context)) if whole else float(context),
        }


def cost_of(setting: Setting, strategy: Strategy) -> tuple[CostModel, NDArray[np.int64]]:
    """The cost model of one strategy's degrees, and the strategy's vector."""
    cost = CostModel(setting, [strategy.degrees], strategy.stages, few=True)
    return cost, np.array([0, *(each.index(strategy.sharding[each.key]) for each in cost.tables.rules.operators)])
