from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.serving.rate_search import FURTHEST, TOLERANCE, Sustained, highest_scale


@given(st.floats(2 / FURTHEST, FURTHEST / 2))
def test_finds_the_limit_within_the_tolerance(limit: float) -> None:
    found = highest_scale(lambda scale: scale <= limit)
    assert found.scale <= limit < found.scale * (1 + TOLERANCE)
    assert found.bounded


def test_nothing_attains() -> None:
    assert highest_scale(lambda scale: False) == Sustained(0.0, True, 21)


def test_everything_attains() -> None:
    assert highest_scale(lambda scale: True) == Sustained(FURTHEST, False, 21)


@pytest.mark.parametrize("limit", [1.0, 0.9, 5.7])
def test_tries_each_rate_once(limit: float) -> None:
    tried: list[float] = []

    def attains(scale: float) -> bool:
        tried.append(scale)
        return scale <= limit

    found = highest_scale(attains, tolerance=0.1)
    assert len(set(tried)) == len(tried) == found.evaluations


def test_a_gap_in_attainment_ends_the_search_below_it() -> None:
    found = highest_scale(lambda scale: scale < 3 or 3.5 < scale < 3.9)
    assert found.scale < 3 or 3.5 < found.scale < 3.9
