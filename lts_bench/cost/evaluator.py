"""Evaluation of strategies: compiled where that can be, else in NumPy, with the same bits."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ANSWER
from lts_bench.cost import vectorised
from lts_bench.cost.compiled import Kept, compiler
from lts_bench.cost.program import FloatArray, IntArray, Program

GOODPUT, FEASIBLE, LEGAL, TTFT, TPOT, MEMORY, OVER_MEMORY, OVER_TTFT, OVER_TPOT, BATCH, ROUND_SECONDS = range(11)
"""Columns of a raw result: the answer's fields in their order, then b and s."""
NO_POINTS = np.empty((0, 2))


class Evaluator:
    """Evaluates strategies with a program.

    Args:
        program: what to evaluate with.
        few: whether it is asked so little that machine code would take longer to load than NumPy to answer.
    """

    def __init__(self, program: Program, *, few: bool = False) -> None:
        self._kept, self._few = Kept(program), few

    def evaluate(self, vectors: IntArray, points: FloatArray | None = None) -> NDArray[np.void]:
        """(n,) answers of (n, decisions) vectors; ``points`` (n, 2) is filled with the b and s of the answers."""
        vectors, answers = np.ascontiguousarray(vectors, dtype=np.int64), np.empty(len(vectors), dtype=ANSWER)
        wanted = NO_POINTS if points is None else points
        if self._few or compiler() is None or not self._compiled(vectors, answers, wanted):
            vectorised.evaluate_all(self._kept.arrays, vectors, answers, wanted)
        return answers

    def raw(self, vectors: IntArray) -> FloatArray:
        """(n, columns) every number of an evaluation."""
        points = np.empty((len(vectors), 2))
        answers = self.evaluate(vectors, points)
        fields = [np.atleast_2d(answers[name].T) for name in ANSWER.names or ()]
        return np.concatenate([*fields, points.T]).T.astype(np.float64)

    def _compiled(self, vectors: IntArray, answers: NDArray[np.void], points: FloatArray) -> bool:
        """Evaluate with machine code; False where there is none to be had."""
        from lts_bench.cost.loop import evaluate_all

        try:
            evaluate_all(self._kept.held, vectors, answers, points)
        except compiler().core.errors.NumbaError as error:
            warnings.warn(f"evaluation in NumPy, as compilation failed: {error}", RuntimeWarning, stacklevel=2)
            return False
        return True
