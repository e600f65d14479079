"""Evaluation of strategies: compiled where that can be, else in NumPy, with the same bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ANSWER
from lts_bench.cost import vectorised
from lts_bench.cost.compiled import numba
from lts_bench.cost.program import FloatArray, IntArray, Program

GOODPUT, FEASIBLE, LEGAL, TTFT, TPOT, MEMORY, OVER_MEMORY, OVER_TTFT, OVER_TPOT, BATCH, ROUND_SECONDS = range(11)
"""Columns of a raw result: the answer's fields in their order, then b and s."""
NO_POINTS = np.empty((0, 2))


class Evaluator:
    """Evaluates strategies with a program; the compiled side holds its arrays, so that it keeps this one."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __getstate__(self) -> dict[str, Program]:
        # What is held is of this process and of these very arrays: a copy holds its own.
        return {"_program": self._program}

    def evaluate(self, vectors: IntArray, points: FloatArray | None = None) -> NDArray[np.void]:
        """(n,) answers of (n, decisions) vectors; ``points`` (n, 2) is filled with the b and s of the answers."""
        vectors, answers = np.ascontiguousarray(vectors, dtype=np.int64), np.empty(len(vectors), dtype=ANSWER)
        wanted = NO_POINTS if points is None else points
        if numba is None or not self._compiled(vectors, answers, wanted):
            vectorised.evaluate_all(self._program, vectors, answers, wanted)
        return answers

    def raw(self, vectors: IntArray) -> FloatArray:
        """(n, columns) every number of an evaluation."""
        points = np.empty((len(vectors), 2))
        answers = self.evaluate(vectors, points)
        fields = [np.atleast_2d(answers[name].T) for name in ANSWER.names or ()]
        return np.concatenate([*fields, points.T]).T.astype(np.float64)

    @cached_property
    def _evaluate_all(self) -> Callable[[IntArray, NDArray[np.void], FloatArray], None]:
        from lts_bench.cost.held import hold
        from lts_bench.cost.loop import evaluate_all

        return partial(evaluate_all, hold(self._program))

    def _compiled(self, vectors: IntArray, answers: NDArray[np.void], points: FloatArray) -> bool:
        """Evaluate with machine code; False where there is none to be had."""
        try:
            self._evaluate_all(vectors, answers, points)
        except numba.core.errors.NumbaError as error:
            warnings.warn(f"evaluation in NumPy, as compilation failed: {error}", RuntimeWarning, stacklevel=2)
            return False
        return True
