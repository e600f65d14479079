"""The cost model of a task: tables built once, evaluation of any number of strategies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ANSWER
from lts_bench.cost import evaluator
from lts_bench.cost.nodes import Setting
from lts_bench.cost.program import build_program
from lts_bench.cost.tables import Tables
from lts_bench.space.strategy import Degrees

COST_MODEL_VERSION = "1"
"""Changes whenever any score may."""

SORTED_FROM = 1024
"""Batches of at least so many vectors are evaluated in the order of the tables."""


class CostModel:
    """Scores vectors of decisions for one list of degrees."""

    def __init__(self, setting: Setting, degrees: Sequence[Degrees], stages: tuple[int, ...] | None = None) -> None:
        self.setting = setting
        self.tables = Tables(setting, degrees, stages)
        self.program = build_program(self.tables)
        first_rows = self.program.edges.base[:, [0, -1]].T
        self._locality = np.argsort(np.lexsort(first_rows[::-1])).astype(np.uint16)

    def raw(self, vectors: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n, columns of ``evaluator``) every number of an evaluation."""
        out = np.empty((len(vectors), evaluator.COLUMNS))
        given = np.ascontiguousarray(vectors, dtype=np.int64)
        evaluator.evaluate_all(self.program, given, self._order(given[:, 0]), out)
        return out

    def _order(self, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        """Vectors that read the same tables one after the other: nothing but the cache sees the difference."""
        if len(degrees) < SORTED_FROM:
            return np.arange(len(degrees))
        inside = np.clip(degrees, 0, len(self.tables.degrees) - 1)
        return np.argsort(self._locality[inside], kind="stable")

    def evaluate(self, vectors: NDArray[np.int64]) -> NDArray[np.void]:
        """(n,) answers of (n, decisions) vectors, illegal ones included."""
        out = self.raw(vectors)
        answers = np.empty(len(out), dtype=ANSWER)
        answers["goodput_per_npu"] = out[:, evaluator.GOODPUT]
        answers["feasible"] = out[:, evaluator.FEASIBLE] > 0
        answers["legal"] = out[:, evaluator.LEGAL] > 0
        answers["ttft_s"] = out[:, evaluator.TTFT]
        answers["tpot_s"] = out[:, evaluator.TPOT]
        answers["memory_bytes"] = out[:, evaluator.MEMORY]
        answers["violation"] = out[:, evaluator.OVER_MEMORY : evaluator.OVER_TPOT + 1]
        return answers
