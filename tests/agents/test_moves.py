"""Moves go to legal strategies that differ in what they should, as often as they should."""

from __future__ import annotations

import numpy as np
from fakes import ToySpace, ToyTask

from lts_bench.agents._moves import Neighbours, draw_choices, near_degrees, operator_masks


def test_drawn_choices_are_all_the_legal_ones_and_no_others():
    space, rng = ToyTask().space, np.random.default_rng(0)
    degrees = np.full(3_000, 4)
    drawn = draw_choices(space, degrees, rng)
    for column in range(1, len(space.sizes)):
        assert set(drawn[:, column]) == set(np.flatnonzero(space.mask(4)[column]))
    assert set(drawn[:, 0]) == {4}


def test_drawn_choices_are_uniform():
    space, rng = ToyTask().space, np.random.default_rng(0)
    drawn = draw_choices(space, np.full(20_000, 4), rng)
    for column in range(1, len(space.sizes)):
        legal = np.flatnonzero(space.mask(4)[column])
        shares = np.bincount(drawn[:, column], minlength=len(legal))[legal] / len(drawn)
        assert np.abs(shares - 1 / len(legal)).max() < 0.02


def test_near_degrees_are_others_and_half_as_likely_a_doubling_further():
    space, rng = ToyTask().space, np.random.default_rng(0)
    distances = np.abs(np.log2(space.degrees) - np.log2(space.degrees[4])).sum(axis=1)
    expected = np.where(distances > 0, 0.5**distances, 0.0)
    near = near_degrees(space, np.full(20_000, 4), rng)
    shares = np.bincount(near, minlength=len(space.degrees)) / len(near)
    assert np.abs(shares - expected / expected.sum()).max() < 0.02


def test_the_only_degrees_have_none_near():
    space = ToyTask().space
    space.degrees = space.degrees[:1]
    assert near_degrees(space, np.zeros(3, dtype=np.int64), np.random.default_rng(0)).tolist() == [0, 0, 0]


def test_neighbours_are_legal_and_most_differ():
    space, rng = ToySpace(), np.random.default_rng(0)
    vectors = space.sample(2_000, rng)
    moved = Neighbours(space).draw(vectors, rng)
    assert space.legal(moved).all()
    assert (moved != vectors).any(axis=1).mean() > 0.5


def test_a_neighbour_has_other_degrees_or_other_operators():
    """Repair aside, which keeps what the new degrees allow."""
    space, rng = ToySpace(), np.random.default_rng(0)
    vectors = space.sample(2_000, rng)
    moved = Neighbours(space).draw(vectors, rng)
    elsewhere = moved[:, 0] != vectors[:, 0]
    kept = np.where(elsewhere[:, None], space.repair(np.column_stack((moved[:, 0], vectors[:, 1:]))), moved)
    assert np.array_equal(kept, moved)
    assert 0.2 < elsewhere.mean() < 0.4


def test_masks_of_operators_are_the_spaces():
    space = ToySpace()
    assert np.array_equal(operator_masks(space, np.array([3, 4]))[1], space.mask(4)[1:, :16])
