from __future__ import annotations

import numpy as np
import pytest

from lts_bench.space.decisions import Space
from lts_bench.space.relabel import Relabelling
from lts_bench.specs.suite import load_suite
from lts_bench.task import Task


@pytest.fixture(scope="module", params=["smoke", "disagg"])
def space(request: pytest.FixtureRequest) -> Space:
    return Task(load_suite(request.param).tasks[0]).space


@pytest.fixture(scope="module")
def other(space: Space) -> Relabelling:
    return Relabelling(space, np.random.default_rng(1))


def test_a_vector_means_the_same_strategy(space: Space, other: Relabelling) -> None:
    vectors = other.space.sample(200, np.random.default_rng(2))
    back = other.original(vectors)
    assert [other.space.decode(vector) for vector in vectors] == [space.decode(vector) for vector in back]
    assert (vectors != back).any(axis=1).mean() > 0.9


def test_legality_is_the_same(space: Space, other: Relabelling) -> None:
    vectors = np.random.default_rng(3).integers(other.space.sizes, size=(2000, len(other.space.sizes)))
    legal = other.space.legal(vectors)
    assert (legal == space.legal(other.original(vectors))).all()
    assert other.space.log10_size == pytest.approx(space.log10_size)


def test_the_way_back_is_one_to_one(space: Space, other: Relabelling) -> None:
    for column, size in enumerate(space.sizes):
        vectors = np.zeros((size, len(space.sizes)), dtype=np.int64)
        vectors[:, column] = np.arange(size)
        assert sorted(other.original(vectors)[:, column]) == list(range(size))
