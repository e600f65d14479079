"""Named budgets, and the meter: the one place that counts evaluations and keeps the ledger of a run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from lts_bench.answer import ANSWER, ILLEGAL_VIOLATION
from lts_bench.specs.failure import InputError, did_you_mean

if TYPE_CHECKING:
    from lts_bench.space.decisions import Space


class Budget(msgspec.Struct, frozen=True):
    """What one run may spend.

    Attributes:
        name: the name under which results are compared.
        evaluations: strategies that may be scored.
        seconds: wall-clock limit, generous: evaluations are meant to run out first.
    """

    name: str
    evaluations: int
    seconds: float


BUDGETS = {
    budget.name: budget
    for budget in (
        Budget("e50", 50, 60.0),
        Budget("e100", 100, 120.0),
        Budget("e1k", 1_000, 600.0),
        Budget("e10k", 10_000, 3_600.0),
    )
}
"""The budgets of official runs, by name."""

UNLIMITED = Budget("unlimited", sys.maxsize, math.inf)
"""For use outside the harness, e.g. an environment that somebody trains on."""


def parse_budget(text: str) -> Budget:
    """Return the budget of that name.

    Raises:
        InputError: there is none.
    """
    if text not in BUDGETS:
        hint = did_you_mean(text, BUDGETS)
        raise InputError(f"no such budget{hint}", field="budget", value=text, legal=tuple(BUDGETS))
    return BUDGETS[text]


class BudgetExhausted(Exception):  # noqa: N818 (the end of a run, not an error)
    """More evaluations were asked for than were left.

    Attributes:
        answers: the answers to the leading vectors that still fitted the budget.
    """

    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers
        super().__init__(f"the budget is spent; {len(answers)} of the vectors asked for were still scored")


class Improvement(NamedTuple):
    """A strategy better than all before it: its evaluation (from 1), the second, the vector, the goodput."""

    evaluation: int
    seconds: float
    vector: tuple[int, ...]
    goodput_per_npu: float


class Meter:
    """Scores vectors within a budget and keeps the ledger.

    Anything may be handed in. A row that is no vector of the space (wrong length, not integers, a choice that does not
    exist) costs one evaluation like any other and is answered as illegal.

    Attributes:
        used: evaluations spent; duplicates, illegal and infeasible ones all count.
        illegal: evaluations of vectors that are not legal (INVALID).
        infeasible: evaluations of legal vectors that break memory or SLO.
        first_feasible: the first evaluation (from 1) with a feasible strategy, or None.
        trace: the improvements, strictly increasing in evaluation and goodput; the last is the run's answer.
    """

    def __init__(
        self,
        evaluate: Callable[[np.ndarray], np.ndarray],
        budget: Budget,
        space: Space,
        *,
        feedback: str = "graded",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the meter and its clock.

        Args:
            evaluate: scores an int64 array (n, d) of existing choices.
            budget: the limit of evaluations.
            space: gives the sizes of the decisions and the canonical form that tells duplicates.
            feedback: "graded", or "flat": agents learn the goodput only (see `flatten`); the ledger knows all.
            clock: seconds from an arbitrary origin.
        """
        if feedback not in ("graded", "flat"):
            raise InputError("no such feedback", field="feedback", value=feedback, legal=("graded", "flat"))
        self.budget, self.feedback, self.space = budget, feedback, space
        self._evaluate, self._clock, self._started = evaluate, clock, clock()
        self._asked: list[tuple[np.ndarray, np.ndarray]] = []
        # A training without a limit would fill the memory.
        self._keeps_asked = budget != UNLIMITED
        self.used = self.illegal = self.infeasible = 0
        self.first_feasible: int | None = None
        self.trace: list[Improvement] = []

    @property
    def remaining(self) -> int:
        """Evaluations left."""
        return self.budget.evaluations - self.used

    @property
    def unique(self) -> int:
        """Different strategies among the evaluated vectors that name existing choices; not counted without a limit."""
        if not self._asked:
            return 0
        rows, legal = (np.concatenate(parts) for parts in zip(*self._asked, strict=True))
        rows[legal] = self.space.canonical(rows[legal])
        return len(np.unique(rows, axis=0))

    @property
    def best(self) -> Improvement | None:
        """The best feasible strategy so far."""
        return self.trace[-1] if self.trace else None

    def evaluate(self, vectors: Any) -> np.ndarray:
        """Score vectors, one evaluation each.

        Args:
            vectors: integers (n, d).

        Returns:
            ANSWER rows (n,).

        Raises:
            BudgetExhausted: more vectors than evaluations are left; the leading ones that fit were scored.
        """
        rows, valid = readable_rows(vectors, self.space.sizes)
        asked, fitting = len(valid), min(len(valid), self.remaining)
        answers = self._score(rows[:fitting], valid[:fitting])
        self._record(rows[:fitting], valid[:fitting], answers)
        shown = flatten(answers) if self.feedback == "flat" else answers
        if fitting < asked:
            raise BudgetExhausted(shown)
        return shown

    def _score(self, rows: np.ndarray, valid: np.ndarray) -> np.ndarray:
        if len(rows) and valid.all():
            return self._evaluate(rows)
        answers = illegal_answers(len(rows))
        if valid.any():
            answers[valid] = self._evaluate(rows[valid])
        return answers

    def _record(self, rows: np.ndarray, valid: np.ndarray, answers: np.ndarray) -> None:
        feasible = answers["legal"] & answers["feasible"]
        of_legal, of_feasible = int(np.count_nonzero(answers["legal"])), int(np.count_nonzero(feasible))
        self.illegal += len(rows) - of_legal
        self.infeasible += of_legal - of_feasible
        if self._keeps_asked:
            self._asked.append((rows[valid], answers["legal"][valid]))
        if of_feasible:
            if self.first_feasible is None:
                self.first_feasible = self.used + 1 + int(np.argmax(feasible))
            self._note_improvements(rows, np.where(feasible, answers["goodput_per_npu"], 0.0))
        self.used += len(rows)

    def _note_improvements(self, rows: np.ndarray, goodput: np.ndarray) -> None:
        start = self.trace[-1].goodput_per_npu if self.trace else 0.0
        if goodput.max() > start:
            best_before = np.maximum.accumulate(np.concatenate(([start], goodput)))[:-1]
            seconds = self._clock() - self._started
            self.trace.extend(
                Improvement(self.used + 1 + int(i), seconds, tuple(rows[i].tolist()), float(goodput[i]))
                for i in np.flatnonzero(goodput > best_before)
            )


def readable_rows(vectors: Any, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read whatever an agent handed in as vectors.

    One flat vector is one row. Rows that are no vectors of the space become zeros and are marked.

    Returns:
        int64 (n, d) and a mask (n,) of the rows whose entries are all existing choices.
    """
    try:
        given = np.asarray(vectors)
    except (TypeError, ValueError):
        given = np.empty(len(vectors), dtype=object)
    if given.ndim == 1 and given.size and given.dtype != object:
        given = given[np.newaxis]
    count = len(given) if given.ndim else 1
    if given.dtype.kind not in "iu" or given.shape != (count, len(sizes)):
        return np.zeros((count, len(sizes)), dtype=np.int64), np.zeros(count, dtype=np.bool_)
    valid: np.ndarray = np.logical_and.reduce((given >= 0) & (given < sizes), axis=1)
    rows = given.astype(np.int64, order="C")
    if not valid.all():
        rows[~valid] = 0
    return rows, valid


def illegal_answers(count: int) -> np.ndarray:
    """Return the answers to vectors that are not legal: goodput 0, the violations at their largest, the rest 0."""
    answers = np.zeros(count, dtype=ANSWER)
    answers["violation"] = ILLEGAL_VIOLATION
    return answers


def flatten(answers: np.ndarray) -> np.ndarray:
    """Return what flat feedback tells of graded answers.

    Goodput stays, and with it ``feasible``; ``legal`` stays, for an agent can ask the space. Seconds and bytes are NaN.
    Violations are 0 where feasible and the largest elsewhere, however near a strategy came.
    """
    flat = answers.copy()
    for field in ("ttft_s", "tpot_s", "memory_bytes"):
        flat[field] = np.nan
    flat["violation"] = np.where(answers["feasible"], 0.0, ILLEGAL_VIOLATION)[:, np.newaxis]
    return flat
