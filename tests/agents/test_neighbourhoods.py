"""Whole neighbourhoods hold what they say and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToySpace

from lts_bench.agents._axes import Axes
from lts_bench.agents._neighbourhoods import Neighbourhoods


@pytest.fixture
def neighbourhoods() -> Neighbourhoods:
    return Neighbourhoods(ToySpace(), 3, np.random.default_rng(0))


@pytest.fixture
def vector() -> np.ndarray:
    return ToySpace().sample(1, np.random.default_rng(1))[0]


def test_degrees_are_the_nearest_others(neighbourhoods: Neighbourhoods, vector: np.ndarray):
    near = neighbourhoods.degrees(vector)
    assert len(near) == 3
    assert (near[:, 1:] == vector[1:]).all()
    assert vector[0] not in near[:, 0]


def test_choices_are_all_the_legal_ones_of_an_operator(neighbourhoods: Neighbourhoods, vector: np.ndarray):
    near = neighbourhoods.choices([5], vector)
    assert near[:, 5].tolist() == np.flatnonzero(ToySpace().mask(vector[0])[5]).tolist()
    assert (np.delete(near, 5, axis=1) == np.delete(vector, 5)).all()


def test_axes_are_copied_and_exchanged(neighbourhoods: Neighbourhoods, vector: np.ndarray):
    axes = Axes(ToySpace())
    (x, y), *_ = np.moveaxis(axes.letters(vector[np.newaxis]), 2, 1)
    first, second, other = np.moveaxis(axes.letters(neighbourhoods.exchanged(vector)), 2, 1)
    # A letter that an operator has on one axis it has on the other.
    assert np.array_equal(first, [x, x])
    assert np.array_equal(second, [y, y])
    assert np.array_equal(other, [y, x])


def test_runs_take_the_letters_of_the_other_axis(neighbourhoods: Neighbourhoods, vector: np.ndarray):
    near = neighbourhoods.copied(vector)
    count = len(vector) - 1
    assert len(near) == 2 * ((count - 1) + (count - 2))
    assert ((near != vector).sum(axis=1) <= 3).all()


def test_letters_are_taken_from_others_axis_by_axis(neighbourhoods: Neighbourhoods, vector: np.ndarray):
    other = ToySpace().sample(1, np.random.default_rng(2))
    axes = Axes(ToySpace())
    (x, y), (u, v) = (np.moveaxis(axes.letters(each), 2, 1)[0] for each in (vector[np.newaxis], other))
    crossed = neighbourhoods.crossed(vector, other)
    assert (crossed[:, 0] == vector[0]).all()
    found = [pair.tolist() for pair in np.moveaxis(axes.letters(crossed), 2, 1)]
    assert found == [[a.tolist(), b.tolist()] for a, b in ((u, y), (v, y), (x, u), (x, v), (u, v))]
    assert neighbourhoods.crossed(vector, other[:0]).shape == (0, len(vector))


def test_all_leave_the_vector_as_it_is(neighbourhoods: Neighbourhoods, vector: np.ndarray):
    before = vector.copy()
    for neighbourhood in neighbourhoods.all:
        assert neighbourhood(vector).shape[1] == len(vector)
    assert np.array_equal(vector, before)
