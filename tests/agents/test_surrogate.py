"""The process knows what it was given; its distances count letters."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToySpace

pytest.importorskip("sklearn", reason="the extra 'rl' is not installed")

from lts_bench.agents._surrogate import Encoding, expected_improvement, fitted, normal_scores

SPACE = ToySpace()


def test_a_squared_distance_is_the_number_of_letters_that_differ():
    vectors = SPACE.sample(2, np.random.default_rng(0))
    vectors[1, 0] = vectors[0, 0]
    strategies = [SPACE.decode(vector) for vector in vectors]
    letters = [
        [letter for name, label in strategy.items() if name != "degrees" for letter in label.split(",")]
        for strategy in strategies
    ]
    points = Encoding(SPACE).of(vectors)
    differing = sum(one != other for one, other in zip(*letters, strict=True))
    assert differing > 0
    assert ((points[0] - points[1]) ** 2).sum() == pytest.approx(differing)


def test_a_doubling_of_one_of_the_degrees_is_half_a_unit():
    degrees = SPACE.degrees.tolist()
    pair = np.zeros((2, len(SPACE.sizes)), dtype=np.int64)
    pair[:, 0] = degrees.index([8, 1, 1, 1, 1, 1, 1]), degrees.index([4, 2, 1, 1, 1, 1, 1])
    points = Encoding(SPACE).of(pair)
    assert np.abs(points[0] - points[1]).tolist()[:7] == [0.5, 0.5, 0, 0, 0, 0, 0]


def test_scores_keep_the_order_and_are_those_of_a_normal_distribution():
    found = np.random.default_rng(0).random(1001) ** 5
    scores = normal_scores(found)
    assert (np.argsort(scores) == np.argsort(found)).all()
    assert (scores.mean(), scores.std()) == pytest.approx((0.0, 1.0), abs=0.01)
    assert normal_scores(np.array([3.0, 3.0])).tolist() == [0.0, 0.0]


def test_what_is_known_promises_nothing_and_what_is_near_the_best_promises_most():
    points, scores = np.array([[0.0], [4.0], [8.0]]), np.array([-1.0, 0.0, 1.0])
    promised = expected_improvement(fitted(points, scores, 1.0), np.array([[0.0], [1.0], [8.0], [9.0]]))
    assert promised[0] < 1e-6 and promised[2] < 0.1 < promised[3]
    assert promised[1] < promised[3]
