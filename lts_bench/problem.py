"""What an agent sees of a task: the space, the features, the budget, and answers to the vectors it asks about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lts_bench.budget import UNLIMITED, Budget, Meter
from lts_bench.specs.failure import InputError

if TYPE_CHECKING:
    from lts_bench.space.decisions import Space


class Scorer(Protocol):
    """What can be made a problem: a task, or anything with its space, features, feedback and evaluation."""

    @property
    def space(self) -> Space:
        """The decisions and their choices."""

    @property
    def features(self) -> Mapping[str, float]:
        """What an engineer would know of model, cluster, workload and SLO."""

    @property
    def feedback(self) -> str:
        """``graded`` or ``flat``."""

    @property
    def evaluate(self) -> Callable[[np.ndarray], np.ndarray]:
        """Scores vectors (n, d)."""


class Problem(Protocol):
    """The agent's side of a run. It tells neither the task's name nor its instance.

    Example:
        >>> def run(self, problem, rng):
        ...     while problem.remaining:
        ...         vectors = problem.space.sample(min(64, problem.remaining), rng)
        ...         answers = problem.evaluate(vectors)
    """

    @property
    def space(self) -> Space:
        """The decisions and their choices, masks, encode and decode."""

    @property
    def features(self) -> np.ndarray:
        """float64 (f,): what an engineer would know of model, cluster, workload and SLO."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of `features`."""

    @property
    def budget(self) -> Budget:
        """What the run may spend."""

    @property
    def remaining(self) -> int:
        """Evaluations left."""

    @property
    def nominal(self) -> dict[str, Any] | None:
        """For the track ``model_based``: model, cluster, workload and nominal constants as plain data."""

    def evaluate(self, vectors: Any) -> np.ndarray:
        """Score integer vectors (n, d), one evaluation each.

        Returns:
            ANSWER rows (n,).

        Raises:
            BudgetExhausted: more vectors than evaluations are left; it carries the answers to those that fitted.
        """


class LocalProblem:
    """A problem whose meter lives in this process."""

    def __init__(self, meter: Meter, features: Mapping[str, float], nominal: dict[str, Any] | None = None) -> None:
        """Show a meter to an agent.

        Args:
            meter: scores and counts.
            features: value of each feature by name.
            nominal: plain data for agents of the track ``model_based``.
        """
        self.meter, self.nominal = meter, nominal
        self.space, self.budget = meter.space, meter.budget
        self.feature_names = tuple(features)
        self.features = np.array(list(features.values()), dtype=np.float64)

    @classmethod
    def of(cls, task: Scorer, budget: Budget = UNLIMITED, nominal: dict[str, Any] | None = None) -> LocalProblem:
        """Return a fresh problem of a task."""
        meter = Meter(task.evaluate, budget, task.space, feedback=task.feedback)
        return cls(meter, task.features, nominal)

    @property
    def remaining(self) -> int:
        """Evaluations left."""
        return self.meter.remaining

    def evaluate(self, vectors: Any) -> np.ndarray:
        """Score integer vectors (n, d), one evaluation each; see `Problem.evaluate`."""
        return self.meter.evaluate(vectors)


REFERENCE = "reference_goodput_per_npu"
"""The feature with the published goodput of a task, which rewards are measured against."""


def reference_goodput(problem: Problem) -> float:
    """Return the published goodput per NPU of a problem.

    Raises:
        InputError: its features don't tell.
    """
    if REFERENCE not in problem.feature_names:
        raise InputError("the problem has no published goodput", field=REFERENCE, legal=problem.feature_names)
    return float(problem.features[problem.feature_names.index(REFERENCE)])
