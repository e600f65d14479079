"""A problem shows space, features, budget and answers of a task, and nothing else of it."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.budget import UNLIMITED, Budget, BudgetExhausted
from lts_bench.problem import LocalProblem, reference_goodput
from lts_bench.specs.failure import InputError


def test_features_are_named_float64():
    task = ToyTask()
    problem = LocalProblem.of(task)
    assert problem.features.dtype == np.float64
    assert dict(zip(problem.feature_names, problem.features, strict=True)) == task.features


def test_reference_is_the_published_feature():
    task = ToyTask()
    assert reference_goodput(LocalProblem.of(task)) == task.features["reference_goodput_per_npu"]


def test_a_missing_reference_is_told():
    task = ToyTask()
    task.features = {"layers": 1.0}
    with pytest.raises(InputError, match="no published goodput"):
        reference_goodput(LocalProblem.of(task))


def test_evaluating_spends_the_budget():
    task, rng = ToyTask(), np.random.default_rng(0)
    problem = LocalProblem.of(task, Budget("e5", 5, 1.0))
    vectors = task.space.sample(3, rng)
    assert problem.evaluate(vectors).tobytes() == task.evaluate(vectors).tobytes()
    assert problem.remaining == 2
    with pytest.raises(BudgetExhausted):
        problem.evaluate(vectors)
    assert problem.remaining == 0


def test_a_problem_of_a_flat_task_is_flat():
    problem = LocalProblem.of(ToyTask(feedback="flat"))
    answers = problem.evaluate(problem.space.sample(4, np.random.default_rng(0)))
    assert np.isnan(answers["tpot_s"]).all()


def test_the_budget_is_unlimited_unless_given():
    assert LocalProblem.of(ToyTask()).budget == UNLIMITED


def test_nominal_data_is_shown_only_where_given():
    assert LocalProblem.of(ToyTask()).nominal is None
    assert LocalProblem.of(ToyTask(), nominal={"layers": 3}).nominal == {"layers": 3}
