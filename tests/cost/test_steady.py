from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lts_bench.cost.steady import (
    Replica,
    Rules,
    batch_capacity,
    best_batch,
    excess,
    memory_bytes,
    rate,
    round_seconds,
    ttft_terms,
)

G90 = -log(0.1)


def rules(ttft: float = 0.0, tpot: float = 0.0, *, quantile: float = 0.9, coordinated: bool = False) -> Rules:
    return Rules(1e30, ttft, tpot, quantile, -log(1 - quantile), coordinated)


def replica(
    s_p: float = 0.1, *, prefill: float = 0.2, capacity: float = inf, pp: float = 1.0, dp: float = 1.0
) -> Replica:
    return Replica(s_p, prefill, capacity, pp, dp)


def test_ttft_by_hand() -> None:
    # T_p = 0.2, s_p = 0.1, w = 0.5 prompts a round, s = 0.04: queue g·w·s_p²/(2s), wait for a step 0.9·s/pp.
    base, c, queue = ttft_terms(replica(pp=2), rules(), 0.5)
    assert base + c * 0.04 + queue / 0.04 == pytest.approx(0.2 + G90 * 0.5 * 0.01 / 0.08 + 0.9 * 0.04 / 2)


def test_coordinated_admission_waits_for_the_other_ranks() -> None:
    # (dp − 1)/(2Λ) with Λ = dp·a/TPOT and TPOT = s + a·s_p, a = 0.5, s = 0.04, dp = 8.
    base, c, queue = ttft_terms(replica(dp=8), rules(coordinated=True), 0.5)
    waiting = 7 / (2 * 8 * 0.5 / (0.04 + 0.5 * 0.1))
    plain = 0.2 + G90 * 0.5 * 0.01 / 0.08 + 0.9 * 0.04
    assert base + c * 0.04 + queue / 0.04 == pytest.approx(plain + waiting)


@given(st.floats(1e-3, 1), st.floats(0, 1), st.floats(0.05, 2), st.floats(0, 1), st.floats(0.02, 3))
@settings(max_examples=300, deadline=None)
def test_throttle_against_a_scan(td: float, base: float, c: float, queue: float, limit: float) -> None:
    """The smallest s ≥ td with base + c·s + queue/s ≤ limit."""
    s = np.concatenate(([td], td + np.geomspace(1e-7, 100, 20_000)))
    meets = base + c * s + queue / s <= limit
    found = round_seconds(td, base, c, queue, limit)
    if found < 0:
        assert not meets.any() or (limit - base - c * s - queue / s)[meets].max() < 1e-3 * limit
    else:
        assert base + c * found + queue / found <= limit * (1 + 1e-9) or found == td
        assert found >= td
        if meets.any():
            assert found <= s[meets][0] * (1 + 1e-12)
            before = s[s < found * (1 - 1e-9)]
            assert not (base + c * before + queue / before <= limit * (1 - 1e-9)).any()


def test_no_limit_no_throttle() -> None:
    assert round_seconds(0.03, 99.0, 1.0, 5.0, 0.0) == 0.03


def test_roots_of_the_page() -> None:
    # pp·(D ∓ √(D² − 2·g·q·a·s_p²/pp))/(2q)
    a, s_p, t_p, limit, q, pp = 0.3, 0.4, 0.1, 1.0, 0.9, 2.0
    distance = limit - t_p
    root = pp * (distance - sqrt(distance**2 - 2 * G90 * q * a * s_p**2 / pp)) / (2 * q)
    base, c, queue = ttft_terms(replica(s_p, prefill=t_p, pp=pp), rules(limit), a)
    assert round_seconds(1e-3, base, c, queue, limit) == pytest.approx(root)


def test_memory_by_hand() -> None:
    # Two stages: weights 10 and 20, KV of a sequence 2 and 1 in the mean, a whole one 4 and 3.
    stages = np.array([[10.0, 2.0, 4.0], [20.0, 1.0, 3.0]])
    assert batch_capacity(stages, 2.0, 30.0) == 5  # (30 − 10)/(2·2) and (30 − 20)/(2·1)
    assert batch_capacity(stages, 2.0, 22.5) == 0  # no whole sequence beside the second stage's weights
    assert batch_capacity(stages, 2.0, 13.9) == 0
    assert memory_bytes(stages, 1.0) == 23 and memory_bytes(stages, 16.0) == 42
    assert batch_capacity(np.array([[1.0, 0.0, 0.0]]), 1.0, 2.0) == inf


def test_excess_is_relative() -> None:
    assert excess(3.0, 2.0) == 0.5 and excess(2.0, 2.0) == 0 and excess(9.0, 0.0) == 0


def scan(one: Replica, limits: Rules, batches: np.ndarray, decode: np.ndarray, waits: np.ndarray) -> tuple[float, int]:
    """The best integer batch, each tried with interpolated times."""
    best, at = 0.0, 0
    for b in range(1, int(batches[-1]) + 1):
        td, w = float(np.interp(b, batches, decode)), float(np.interp(b, batches, waits))
        found = rate(one, limits, float(b), td, w)
        if found > best * (1 + 1e-12):
            best, at = found, b
    return best, at


@given(
    st.floats(1e-3, 0.05), st.floats(1e-6, 1e-3), st.floats(0, 1), st.floats(1e-3, 1), st.floats(0.05, 5),
    st.floats(5e-3, 0.5), st.integers(1, 128), st.integers(8, 2048),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_best_batch_against_every_integer(
    floor: float, slope: float, bend: float, s_p: float, ttft: float, tpot: float, capacity: int, osl: int
) -> None:
    batches = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128])
    decode = floor + slope * batches + bend * 1e-3 * np.sqrt(batches)
    waits = batches / osl
    one, limits = replica(s_p, prefill=s_p, capacity=float(capacity)), rules(ttft, tpot)
    found = best_batch(one, limits, batches, decode, waits)
    expected, _ = scan(one, limits, batches, decode, waits)
    assert found[0] <= expected * (1 + 1e-12)
    assert found[0] >= expected * (1 - 1e-9)


def test_scores_do_not_jump_with_the_ladder() -> None:
    batches = 2.0 ** np.arange(9)
    decode, waits = 0.01 + 1e-4 * batches, batches / 1000
    one = replica(0.05, prefill=0.05)
    scores = [best_batch(one, rules(0.0, tpot), batches, decode, waits)[0] for tpot in np.linspace(0.012, 0.04, 400)]
    steps = np.diff(scores) / scores[1:]
    assert (steps >= 0).all() and steps.max() < 0.06  # one more sequence of about 20 at the most


def test_throttled_throughput_can_fall_with_the_batch() -> None:
    # A long prompt under a tight TTFT: more sequences need slower rounds, so the largest feasible b is not the best.
    batches = np.arange(1.0, 65)
    decode, waits = np.full(64, 0.005), batches / 64
    one, limits = replica(0.15, prefill=0.15), rules(0.5, 0.0)
    rates = [rate(one, limits, b, td, w) for b, td, w in zip(batches, decode, waits, strict=True)]
    feasible = [value for value in rates if value > 0]
    assert feasible[-1] < max(feasible)
    assert best_batch(one, limits, batches, decode, waits)[0] == max(feasible)
