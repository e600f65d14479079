from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson
from tiny_settings import degrees, dense_model, setting

from lts_bench.cost.lockstep import lockstep_waits, wait_rows


def test_published_ratios() -> None:
    load = np.array([0.01, 0.1, 1.0])
    assert (lockstep_waits(load, 8) / load).round(1) == pytest.approx([7.7, 5.5, 1.4])


@given(st.floats(1e-4, 50), st.integers(1, 64))
def test_against_the_tail_sum(load: float, dp: int) -> None:
    # E⌈K/dp⌉ = Σ_j P(K > j·dp).
    mean = load * dp
    tail = poisson.sf(np.arange(0, int(mean + 40 * np.sqrt(mean) + 60), dp), mean).sum()
    assert lockstep_waits(np.array([load]), dp)[0] == pytest.approx(tail, rel=1e-6)


def test_one_rank_waits_for_itself_alone() -> None:
    load = np.array([0.003, 0.5, 40.0])
    assert lockstep_waits(load, 1) == pytest.approx(load)


def test_huge_loads_are_near_their_mean() -> None:
    waits = lockstep_waits(np.array([1e5]), 256)
    # A round starts for every 256 prompts or part of it: half a round more on average.
    assert waits[0] == pytest.approx(1e5 + 255 / 512, rel=1e-6)


def test_rows_hold_b_pp_over_osl() -> None:
    place = setting(dense_model(), workload="isl=8,osl=64", max_batch=8)
    rows, waits = wait_rows(place, [degrees(), degrees(pp=2), degrees(pp=2, tp=2)])
    assert rows.tolist() == [0, 1, 1]
    assert waits[1] == pytest.approx(place.phases.batches * 2 / 64)


def test_coordinated_ranks_wait_for_the_mean() -> None:
    place = setting(dense_model(), workload="isl=8,osl=64", max_batch=8, coordinated_admission=True)
    _, waits = wait_rows(place, [degrees(dp=8)])
    assert waits[0] == pytest.approx(place.phases.batches / 64)
