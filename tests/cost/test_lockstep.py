from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson
from tiny_settings import degrees, dense_model, setting

from lts_bench.cost.lockstep import lockstep_waits, prefill_shares, wait_rows


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


LONE, FULL = 0.2, 0.5
"""Seconds of a prefill of one rank, and of one of all ranks."""


def paid(load: float, dp: int) -> float:
    """Seconds of prefill a round."""
    loads = np.array([load])
    waits = lockstep_waits(loads, dp)
    return float((waits * (LONE + prefill_shares(loads, waits, dp) * (FULL - LONE)))[0])


def test_two_ranks_by_hand() -> None:
    # K ~ Poisson(1) prompts: ⌊K/2⌋ full prefills, and one of one rank where K is odd, P(odd) = (1 − e⁻²)/2.
    odd = (1 - np.exp(-2)) / 2
    assert paid(0.5, 2) == pytest.approx((1 - odd) / 2 * FULL + odd * LONE)
    waits = lockstep_waits(np.array([0.5]), 2)
    assert waits == pytest.approx((1 + odd) / 2)
    assert prefill_shares(np.array([0.5]), waits, 2) == pytest.approx((1 - odd) / (1 + odd))


@given(st.floats(1e-4, 20), st.integers(2, 32))
def test_prefills_against_a_sum_over_prompts(load: float, dp: int) -> None:
    # K prompts are ⌈K/dp⌉ prefills of K/⌈K/dp⌉ prompts each, the time of which is linear in the prompts.
    k = np.arange(1, int(load * dp + 40 * np.sqrt(load * dp) + 60))
    prefills = np.ceil(k / dp)
    each = np.interp(k / prefills, [1, dp], [LONE, FULL])
    assert paid(load, dp) == pytest.approx(float(poisson.pmf(k, load * dp) @ (prefills * each)), rel=1e-6)


@given(st.floats(1e-6, 1e3), st.integers(1, 256))
def test_shares_are_shares(load: float, dp: int) -> None:
    loads = np.array([load, 2 * load])
    low, high = prefill_shares(loads, lockstep_waits(loads, dp), dp)
    assert 0 <= low <= high + 1e-9 <= 1 + 2e-9


@pytest.mark.parametrize("dp", [2, 8, 64])
def test_rare_prompts_are_prefilled_alone(dp: int) -> None:
    assert paid(1e-7, dp) == pytest.approx(1e-7 * dp * LONE, rel=1e-4)


@pytest.mark.parametrize("dp", [2, 8, 64])
def test_many_prompts_fill_every_prefill(dp: int) -> None:
    assert paid(1e5, dp) == pytest.approx(1e5 * FULL, rel=1e-4)
    full = np.array([0.3, 7.0])
    assert prefill_shares(full, full, dp).tolist() == [1.0, 1.0]


def test_one_rank_alone_is_all_ranks() -> None:
    assert paid(0.003, 1) == pytest.approx(0.003 * FULL)
    assert paid(40.0, 1) == pytest.approx(40.0 * FULL)


def test_rows_hold_b_pp_over_osl() -> None:
    place = setting(dense_model(), workload="isl=8,osl=64", max_batch=8)
    rows, waits, shares = wait_rows(place, [degrees(), degrees(pp=2), degrees(pp=2, tp=2), degrees(dp=4)])
    assert rows.tolist() == [0, 1, 1, 2]
    assert waits[1] == pytest.approx(place.phases.batches * 2 / 64)
    assert (shares[:2] == 1).all()
    prompts = place.phases.batches / 64
    assert waits[2] == pytest.approx(lockstep_waits(prompts, 4))
    # Of two microbatches each waits for its own.
    _, (both, one), _ = wait_rows(place, [degrees(dp=4, pp=2), degrees(dp=4)])
    assert both == pytest.approx(2 * one)
    assert shares[2] == pytest.approx((prompts * 4 / waits[2] - 1) / 3)
    assert (waits[2] > prompts).all() and (shares[2] < 0.2).all()


def test_coordinated_ranks_wait_for_the_mean() -> None:
    place = setting(dense_model(), workload="isl=8,osl=64", max_batch=8, coordinated_admission=True)
    _, waits, shares = wait_rows(place, [degrees(dp=8)])
    assert waits[0] == pytest.approx(place.phases.batches / 64)
    assert (shares == 1).all()
