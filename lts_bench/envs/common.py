"""What the environments share: which problem they play, features as observations, the reward."""

from __future__ import annotations

import numpy as np

from lts_bench.problem import LocalProblem, Problem, Scorer, reference_goodput
from lts_bench.specs.failure import InputError

FEATURE_LIMIT = 4.0


def resolve_problem(problem: Problem | None, task: Scorer | str | None) -> Problem:
    """Return the given problem, or a fresh one of the given task without a limit of evaluations."""
    if (problem is None) == (task is None):
        raise InputError("give either problem= or task= or suite=", field="problem")
    if problem is not None:
        return problem
    if isinstance(task, str):
        from lts_bench.task import load_task

        return LocalProblem.of(load_task(task))
    assert task is not None
    return LocalProblem.of(task)


def resolve_reference(problem: Problem, reference: float | None) -> float:
    """Return the goodput per NPU that earns reward 1: the given one, else the task's published one."""
    value = reference_goodput(problem) if reference is None else reference
    if not value > 0:
        raise InputError("must be positive", field="reference", value=value)
    return value


def scaled_features(features: np.ndarray) -> np.ndarray:
    """Bring features that span many orders of magnitude to single digits: ``sign(x) log10(1 + |x|) / 10``."""
    scaled: np.ndarray = np.sign(features) * np.log10(1.0 + np.abs(features)) / 10.0
    return scaled.clip(-FEATURE_LIMIT, FEATURE_LIMIT).astype(np.float32)


def rewards(answers: np.ndarray, reference: float) -> np.ndarray:
    """Return goodput ÷ reference where feasible, else ``-min(1, sum(log1p(violation)))``."""
    penalty = np.minimum(1.0, np.log1p(answers["violation"]).sum(axis=1))
    return np.where(answers["feasible"], answers["goodput_per_npu"] / reference, -penalty)
