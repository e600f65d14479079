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


class CostModel:
    """Scores vectors of decisions for one list of degrees."""

    def __init__(self, setting: Setting, degrees: Sequence[Degrees], stages: tuple[int, ...] | None = None) -> None:
        self.setting = setting
        self.tables = Tables(setting, degrees, stages)
        self.program = build_program(self.tables)

    def raw(self, vectors: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n, columns of ``evaluator``) every number of an evaluation."""
        out = np.empty((len(vectors), evaluator.COLUMNS))
        evaluator.evaluate_all(self.program, np.ascontiguousarray(vectors, dtype=np.int64), out)
        return out

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
