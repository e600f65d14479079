from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from lts_bench.report.statistics import (
    board_score,
    bootstrap,
    improvement,
    interquartile_mean,
    interval,
    pareto_front,
    profile,
    ranks,
    wilson,
)

SCORES = arrays(np.float64, (3, 2, 4), elements=st.floats(0, 2))


def test_board_score_is_the_mean_of_means() -> None:
    assert board_score(np.array([[[1.0, 3.0], [0.0, 0.0]]])).tolist() == [1.0]


@given(SCORES)
def test_bootstrap_is_seeded_and_stays_within_the_scores(scores: np.ndarray) -> None:
    samples = bootstrap(scores, resamples=50)
    assert np.array_equal(samples, bootstrap(scores, resamples=50))
    lowest, highest = scores.min(axis=2).mean(axis=1), scores.max(axis=2).mean(axis=1)
    assert (samples >= lowest[:, None] - 1e-12).all()
    assert (samples <= highest[:, None] + 1e-12).all()


def test_bootstrap_has_the_standard_error_of_the_mean() -> None:
    scores = np.random.default_rng(3).random((1, 3, 10))
    expected = math.sqrt((scores.var(axis=2) / 10).sum()) / 3
    assert bootstrap(scores, resamples=20_000).std() == pytest.approx(expected, rel=0.03)


def test_bootstrap_agrees_with_scipy() -> None:
    scores = np.random.default_rng(3).random((1, 1, 10))
    ours = interval(bootstrap(scores, resamples=20_000)[0])
    theirs = stats.bootstrap(
        (scores[0, 0],), np.mean, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.005)


def test_paired_differences_agree_with_scipy() -> None:
    scores = np.random.default_rng(4).random((2, 1, 10))
    samples = bootstrap(scores, resamples=20_000)
    pairs = (scores[0, 0], scores[1, 0])
    theirs = stats.bootstrap(
        pairs, lambda a, b, axis: (a - b).mean(axis=axis), n_resamples=20_000, method="percentile", paired=True, rng=1
    ).confidence_interval
    assert interval(samples[0] - samples[1]) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_bootstrap_is_paired() -> None:
    scores = np.random.default_rng(3).random((1, 3, 10))
    samples = bootstrap(np.concatenate([scores, scores + 0.25]))
    assert np.ptp(samples[1] - samples[0]) < 1e-12


@given(st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(counts: tuple[int, int]) -> None:
    expected = stats.binomtest(*counts).proportion_ci(method="wilson")
    assert wilson(*counts) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_everything() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(arrays(np.float64, 8, elements=st.floats(0, 9)))
def test_interquartile_mean_of_eight_is_the_mean_of_the_middle_four(values: np.ndarray) -> None:
    assert interquartile_mean(values) == pytest.approx(np.sort(values)[2:6].mean(), abs=1e-12)


def test_interquartile_mean_weights_the_edges() -> None:
    # Of 0, 1, 5: a quarter of three is 0.75, so a quarter of the outer two counts and all of the middle one.
    assert interquartile_mean(np.array([5.0, 0.0, 1.0])) == pytest.approx((0.25 * 0 + 1 + 0.25 * 5) / 1.5)


def test_interval_of_a_constant_is_the_constant() -> None:
    assert interval(np.full(100, 0.5)) == (0.5, 0.5)


def test_equal_agents_share_a_rank() -> None:
    scores = np.array([100.0, 100.0, 99.0])[:, None, None] * np.ones((3, 2, 3))
    assert ranks(bootstrap(scores)) == [1, 1, 3]


@given(SCORES)
def test_rank_one_is_always_taken_and_the_order_of_agents_is_immaterial(scores: np.ndarray) -> None:
    found = ranks(bootstrap(scores, resamples=200))
    assert min(found) == 1
    assert found[::-1] == ranks(bootstrap(scores[::-1], resamples=200))


@given(SCORES)
def test_somebody_wins_or_both_do_half(scores: np.ndarray) -> None:
    wins = improvement(scores)
    assert np.allclose(wins + wins.T, 1)
    assert (np.diag(wins) == 0.5).all()


def test_improvement_counts_cells_and_halves_of_ties() -> None:
    scores = np.array([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [5.0, 5.0]]])
    assert improvement(scores).tolist() == [[0.5, 0.375], [0.625, 0.5]]


@given(SCORES)
def test_improvement_of_one_task_is_the_sign_statistic(scores: np.ndarray) -> None:
    a, b = scores[0].ravel(), scores[1].ravel()
    assert improvement(scores)[0, 1] == pytest.approx(((np.sign(a - b) * (np.abs(a - b) > 1e-12)).mean() + 1) / 2)


def test_a_profile_counts_the_cells_that_reach_a_threshold() -> None:
    scores = np.array([[[0.0, 0.5], [0.5, 1.0]]])
    assert profile(scores, np.array([0.0, 0.5, 0.6, 1.0])).tolist() == [[1.0, 0.75, 0.25, 0.25]]


POINTS = st.lists(st.tuples(st.integers(0, 9).map(float), st.integers(0, 9).map(float)))


@given(POINTS)
def test_the_front_is_what_no_point_dominates(points: list[tuple[float, float]]) -> None:
    front = pareto_front(points)
    assert front == sorted(
        (x, y) for x, y in set(points) if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points)
    )
