from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.exact.factors import Factors, Scope, Terms, size_of, strides
from lts_bench.exact.kernels import undominated
from lts_bench.exact.plan import Plan

NONE = Terms(*(np.zeros(0, dtype=np.int64) for _ in Terms._fields))
SIZES = (1, 2, 3, 2, 4)


def graph(*scopes: Scope) -> Factors:
    starts = np.cumsum([0, *(size_of(SIZES, scope) for scope in scopes)])
    return Factors(SIZES, scopes, tuple(starts[:-1].tolist()), int(starts[-1]), NONE, NONE, NONE, NONE, NONE)


def sums(factors: Factors, table: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """The sum under every choice of all variables."""
    found = {}
    for choices in itertools.product(*(range(size) for size in SIZES)):
        entries = [
            start + sum(choices[v] * step for v, step in strides(SIZES, scope).items())
            for scope, start in zip(factors.scopes, factors.starts, strict=True)
        ]
        found[choices] = table[entries].sum(axis=0)
    return found


@given(st.integers(0, 10**6))
def test_elimination_finds_the_least_sum_and_who_has_it(seed: int) -> None:
    factors = graph((1,), (1, 2), (2, 3), (1, 3), (3, 4), (2, 4))
    plan = Plan.of(factors, streams={1})
    rng = np.random.default_rng(seed)
    table = np.zeros((plan.entries, 2))
    table[: factors.entries] = rng.random((factors.entries, 2))
    expected = np.array([*sums(factors, table).values()]).min(axis=0)
    plan.minimise(table[None])
    np.testing.assert_allclose(table[list(plan.left)].sum(axis=0), expected)
    for dimension in (0, 1):
        choices = plan.trace(table, dimension)
        assert plan.total(table, choices)[dimension] == pytest.approx(expected[dimension])


def test_kept_variables_keep_their_own_minima() -> None:
    factors = graph((1,), (1, 2), (2, 3), (3, 4))
    plan = Plan.of(factors, streams={1}, keep=True)
    table = np.zeros((plan.entries, 1))
    table[: factors.entries, 0] = np.random.default_rng(0).random(factors.entries)
    expected = [min(value[0] for choices, value in sums(factors, table).items() if choices[1] == at) for at in (0, 1)]
    plan.minimise(table[None])
    assert {scope for scope, _ in plan.left.values()} == {(1,)}
    found = sum(table[start : start + entries, 0] for start, (_, entries) in plan.left.items())
    np.testing.assert_allclose(found, expected)


def test_forbidden_entries_are_those_of_the_choices() -> None:
    plan = Plan.of(graph((1, 2), (3,), (4,)), streams=())
    allowed = np.ones((len(SIZES), max(SIZES)), dtype=np.bool_)
    allowed[2, 1] = allowed[4, 3] = False
    np.testing.assert_array_equal(np.unique(plan.forbidden(allowed)), [1, 4, 6 + 2 + 3])


def test_of_labels_only_the_undominated_stay() -> None:
    labels = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [2.0, 1.0], [0.5, 9.0], [1.0, 9.5]])
    group = np.array([0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(undominated(labels, group), [True, False, False, True, True, False])
