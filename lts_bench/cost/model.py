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

_WHOLE = np.dtype((np.void, ANSWER.itemsize))
"""An answer as a block of bytes: rows move at once, not field by field."""

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
        evaluator.evaluate_all(self.program, np.ascontiguousarray(vectors, dtype=np.int64), out)
        return out

    def _order(self, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order in which vectors that read the same tables follow each other: the cache sees the difference."""
        inside = np.clip(degrees, 0, len(self.tables.degrees) - 1)
        return np.argsort(self._locality[inside], kind="stable")

    def evaluate(self, vectors: NDArray[np.int64]) -> NDArray[np.void]:
        """(n,) answers of (n, decisions) vectors, illegal ones included."""
        if len(vectors) < SORTED_FROM:
            return self._answers(self.raw(vectors))
        order = self._order(vectors[:, 0])
        answers = np.empty(len(vectors), dtype=ANSWER)
        answers.view(_WHOLE)[order] = self._answers(self.raw(np.take(vectors, order, axis=0))).view(_WHOLE)
        return answers

    def _answers(self, out: NDArray[np.float64]) -> NDArray[np.void]:
        answers = np.empty(len(out), dtype=ANSWER)
        answers["goodput_per_npu"] = out[:, evaluator.GOODPUT]
        answers["feasible"] = out[:, evaluator.FEASIBLE] > 0
        answers["legal"] = out[:, evaluator.LEGAL] > 0
        answers["ttft_s"] = out[:, evaluator.TTFT]
        answers["tpot_s"] = out[:, evaluator.TPOT]
        answers["memory_bytes"] = out[:, evaluator.MEMORY]
        answers["violation"] = out[:, evaluator.OVER_MEMORY : evaluator.OVER_TPOT + 1]
        return answers

    def memory_parts(self, vector: NDArray[np.int64], batch: float) -> dict[str, float]:
        """Bytes of the fullest device at a batch size, and how long one sequence may get.

        ``longest_sequence_tokens`` is what fits beside the weights, buffers aside, at the KV bytes of a token.
        """
        program, degrees = self.program, int(vector[0])
        first, count = program.stage_base[degrees], program.stage_count[degrees]
        blocks, stages = np.empty((program.stage_rows.shape[1], 3)), np.empty((count, 3))
        positions = np.zeros(len(vector), dtype=np.int64)
        evaluator.find_positions(vector, program.sizes, program.letters, program.two_axes, positions)
        alike = program.stored[positions[-2]] == program.stored[positions[-1]]
        held = (program.stage_memory if alike else program.stage_rows)[first : first + count]
        buffers = evaluator.gather_memory(program.operators, degrees, positions, blocks, held, stages)
        cache = np.maximum(batch * program.pp[degrees] * stages[:, 1], stages[:, 2])
        fullest = int((stages[:, 0] + cache).argmax())
        weights, whole = stages[fullest, 0] + program.fixed_bytes, stages[fullest, 2]
        room = max(program.rules.memory_limit - weights, 0.0)
        context = self.setting.phases.full_context
        return {
            "weights": float(weights),
            "kv": float(cache[fullest]),
            "buffers": float(buffers),
            "limit": float(program.rules.memory_limit),
            "kv_per_sequence": float(whole),
            "longest_sequence_tokens": float(np.floor(room / whole * context)) if whole else float(context),
        }
