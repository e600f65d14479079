from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lts_bench.cost.best_batch import best_points
from lts_bench.cost.lockstep import lockstep_waits, prefill_shares
from lts_bench.cost.steady import (
    NO_LIMIT,
    Replica,
    Round,
    Rules,
    Ttft,
    excess,
    memory_bytes,
    rate,
    round_seconds,
    sequences_held,
    tpot_seconds,
    tpot_within,
    ttft_seconds,
    ttft_terms,
)

G90 = -log(0.1)


def rules(
    ttft: float = NO_LIMIT,
    tpot: float = NO_LIMIT,
    *,
    quantile: float = 0.9,
    coordinated: bool = False,
    mixed: bool = False,
) -> Rules:
    return Rules(NO_LIMIT, ttft, tpot, quantile, -log(1 - quantile), coordinated, mixed)


def replica(capacity: float = inf, *, pp: float = 1.0, dp: float = 1.0) -> Replica:
    return Replica(capacity, pp, dp)


def a_round(waits: float, *, decode: float = 0.04, service: float = 0.1, prefill: float = 0.2) -> Round:
    return Round(decode, waits, service, prefill)


def best_batch(one: Replica, limits: Rules, ladder: np.ndarray, rounds: np.ndarray) -> tuple[float, float, Round]:
    """(rate, b, round) of one replica's best point."""
    best, batch, at = best_points(Replica(*np.array(one)[:, None]), limits, ladder, Round(*rounds[:, None]))
    return float(best[0]), float(batch[0]), Round(*(float(each[0]) for each in at))


def rounds_of(decode: np.ndarray, waits: np.ndarray, service: np.ndarray, prefill: np.ndarray) -> np.ndarray:
    return np.stack([decode, waits, service, prefill])


def test_ttft_by_hand() -> None:
    # T = 0.2, s̄ = 0.1, w = 0.5 prompts a round, s = 0.04: queue g·w·s̄²/(2s), wait for a step 0.9·s.
    plain = ttft_seconds(ttft_terms(replica(), rules(), a_round(0.5)), 0.04)
    assert plain == pytest.approx(0.2 + G90 * 0.5 * 0.01 / 0.08 + 0.9 * 0.04)
    # In a pipeline a prompt holds up the next one until it is through: g·w·T²/(2s + w·T); a step is s/pp.
    piped = ttft_seconds(ttft_terms(replica(pp=2), rules(), a_round(0.5)), 0.04)
    assert piped == pytest.approx(0.2 + G90 * 0.5 * 0.04 / 0.18 + 0.9 * 0.04 / 2)


def test_a_prompt_in_a_decode_step_waits_for_that_step_too() -> None:
    # 1.9 steps of s/pp instead of 0.9: until one begins, and that one.
    for pp in (1, 2):
        alone, mixed = (
            ttft_seconds(ttft_terms(replica(pp=pp), rules(mixed=mixed), a_round(0.5)), 0.04) for mixed in (False, True)
        )
        assert mixed - alone == pytest.approx(0.04 / pp)


def test_coordinated_admission_waits_for_the_other_ranks() -> None:
    # (dp − 1)/(2Λ) with Λ = dp·a/TPOT and TPOT = s + a·s_p, a = 0.5, s = 0.04, dp = 8.
    terms = ttft_terms(replica(dp=8), rules(coordinated=True), a_round(0.5))
    waiting = 7 / (2 * 8 * 0.5 / (0.04 + 0.5 * 0.1))
    plain = 0.2 + G90 * 0.5 * 0.01 / 0.08 + 0.9 * 0.04
    assert ttft_seconds(terms, 0.04) == pytest.approx(plain + waiting)


terms_of_ttft = st.builds(Ttft, st.floats(0, 1), st.floats(0.05, 2), st.floats(0, 1), st.sampled_from([0.0, 0.01, 1.0]))


@given(st.floats(1e-3, 1), terms_of_ttft, st.floats(0.02, 3))
@settings(max_examples=300, deadline=None)
def test_throttle_against_a_scan(td: float, terms: Ttft, limit: float) -> None:
    """The smallest s ≥ td with base + c·s + queue/(s + beside) ≤ limit."""
    s = np.concatenate(([td], td + np.geomspace(1e-7, 100, 20_000)))
    meets = ttft_seconds(terms, s) <= limit
    found = round_seconds(td, terms, limit)
    if found == NO_LIMIT:
        assert not meets.any() or (limit - ttft_seconds(terms, s))[meets].max() < 1e-3 * limit
    else:
        assert ttft_seconds(terms, found) <= limit * (1 + 1e-9) or found == td
        assert found >= td
        if meets.any():
            assert found <= s[meets][0] * (1 + 1e-12)
            before = s[s < found * (1 - 1e-9)]
            assert not (ttft_seconds(terms, before) <= limit * (1 - 1e-9)).any()


def test_no_limit_no_throttle() -> None:
    assert round_seconds(0.03, Ttft(99.0, 1.0, 5.0, 0.0), NO_LIMIT) == 0.03


times = st.floats(1e-3, 1)
pipelines = st.tuples(
    st.sampled_from([1.0, 2.0, 4.0, 16.0]), st.builds(Round, times, st.floats(1e-3, 20), times, st.floats(1e-3, 8))
)


def tpot(pp: float, at: Round) -> float:
    return float(tpot_seconds(pp, at, at.decode))


def test_without_a_pipeline_prompts_cost_their_time() -> None:
    assert tpot(1, Round(0.03, 0.7, 0.1, 0.25)) == 0.03 + 0.7 * 0.1


def test_a_lone_prompt_holds_up_a_pipeline_until_it_is_through() -> None:
    # Its own microbatch by T, the others by T − s as they are on their way: s + w·(T − s·3/4) for four.
    at = Round(0.04, 1e-6, 0.05, 0.2)
    assert tpot(4, at) - at.decode == pytest.approx(1e-6 * (0.2 - 0.04 * 3 / 4), rel=1e-4)


def test_a_prompt_as_short_as_a_decode_step_takes_a_slot() -> None:
    # T = s and s̄ = s/4, or less: nothing is to be filled.
    for prefill in (0.04, 0.02):
        assert tpot(4, Round(0.04, 3.0, 0.01, prefill)) == pytest.approx(0.04 + 3 * 0.01)


def test_many_prompts_follow_each_other() -> None:
    # Decode of no time: w·(T − s̄)·φ with φ = 1 − k/(w·(T − s̄)), k = w·T²/(2s̄ + T) = w·0.16/0.6; 0.0667 of 0.3 remain.
    assert tpot(4, Round(1e-9, 8.0, 0.1, 0.4)) == pytest.approx(8 * (0.1 + 0.3 - 0.16 / 0.6), rel=1e-6)


@given(pipelines)
def test_tpot_solves_its_equation(case: tuple[float, Round]) -> None:
    pp, (s, w, service, prefill) = case
    hidden = (1 - 1 / pp) * s
    through = max(prefill, service + hidden)
    left = tpot(pp, case[1]) - w * service
    first = left / (left + (w * through) ** 2 / (2 * (s + w * service) + w * through))
    if pp > 1:
        opened = w * first * (through - service)
        assert left == pytest.approx(max(s + opened - w * first * hidden, opened), rel=1e-9)


@given(pipelines, st.integers(0, 3), st.floats(1, 10))
def test_tpot_rises_with_every_time_and_with_prompts(case: tuple[float, Round], field: int, factor: float) -> None:
    pp, at = case
    more = Round(*(value * factor if index == field else value for index, value in enumerate(at)))
    assert tpot(pp, more) >= tpot(pp, at) * (1 - 1e-9)
    assert tpot(pp, at) >= tpot(1, at) * (1 - 1e-12)


@given(pipelines, st.floats(0.2, 5), st.sampled_from([1 - 1e-9, 1 + 1e-9]))
def test_a_limit_on_tpot_is_tested_without_the_tpot(case: tuple[float, Round], times: float, beside: float) -> None:
    pp, at = case
    tpot = tpot_seconds(pp, at, at.decode)
    assert tpot_within(pp, at, times * tpot * beside) == (times * beside >= 1)
    assert tpot_within(pp, at, tpot * beside) == (beside >= 1)


def test_roots_of_the_page() -> None:
    # (D ∓ √(D² − 2·g·q·a·s_p²))/(2q)
    a, s_p, t_p, limit, q = 0.3, 0.4, 0.1, 1.0, 0.9
    distance = limit - t_p
    root = (distance - sqrt(distance**2 - 2 * G90 * q * a * s_p**2)) / (2 * q)
    terms = ttft_terms(replica(), rules(limit), a_round(a, service=s_p, prefill=t_p))
    assert round_seconds(1e-3, terms, limit) == pytest.approx(root)


def test_memory_by_hand() -> None:
    # Weights 10, KV of a sequence 2 in the mean and 4 when whole, two microbatches.
    assert sequences_held(10.0, 2.0, 4.0, 2.0, 30.0) == 5  # (30 − 10)/(2·2)
    assert sequences_held(10.0, 2.0, 4.0, 2.0, 13.9) == 0  # no whole sequence
    assert sequences_held(10.0, 2.0, 1.0, 2.0, 13.9) == 0  # not one sequence a microbatch
    assert sequences_held(1.0, 0.0, 0.0, 1.0, 2.0) == NO_LIMIT
    assert memory_bytes(10.0, 2.0, 4.0, 1.0) == 14 and memory_bytes(10.0, 2.0, 4.0, 16.0) == 42


def test_excess_is_relative() -> None:
    assert excess(3.0, 2.0) == 0.5 and excess(2.0, 2.0) == 0 and excess(9.0, NO_LIMIT) == 0


def test_rate_by_hand() -> None:
    # 8 sequences in flight, or 16 with pp = 2; TPOT = td + w·s̄ = 0.04 + 0.5·0.1. In a pipeline of two, w·T = 0.1 and
    # half of the round can be hidden: k = 0.01/0.28, Y² − (0.04 + 0.05 − 0.01 − k)·Y − 0.04·k = 0, Y = 0.0660...
    k = 0.01 / 0.28
    m = 0.08 - k
    assert rate(replica(8), rules(), 8.0, a_round(0.5)) == pytest.approx(8 / 0.09)
    piped = 0.05 + (m + sqrt(m * m + 0.16 * k)) / 2
    assert rate(replica(8, pp=2), rules(), 8.0, a_round(0.5)) == pytest.approx(16 / piped)
    assert rate(replica(7, pp=2), rules(), 8.0, a_round(0.5)) == 0
    assert rate(replica(), rules(tpot=0.0901), 8.0, a_round(0.5)) > 0
    assert rate(replica(), rules(tpot=0.0899), 8.0, a_round(0.5)) == 0
    assert rate(replica(), rules(ttft=0.19), 8.0, a_round(0.5)) == 0  # the prompt alone takes 0.2


LADDER = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128])


def scan(one: Replica, limits: Rules, rounds: np.ndarray, first: int, last: int) -> float:
    """The best rate of all integer batches from ``first`` to ``last``, each tried with an interpolated round."""
    at = (Round(*(float(np.interp(b, LADDER, row)) for row in rounds)) for b in range(first, last + 1))
    return max(rate(one, limits, float(b), each) for b, each in enumerate(at, first))


def refined(one: Replica, limits: Rules, rounds: np.ndarray, rung: int, share: float) -> float:
    """The best rate of a rung and of the integers on its sides: on those whose first one has a share of its rate."""
    b = int(LADDER[rung])
    rates = [scan(one, limits, rounds, b, b)]
    for beside, end in ((b - 1, max(rung - 1, 0)), (b + 1, min(rung + 1, len(LADDER) - 1))):
        last = int(LADDER[end])
        if last != b and scan(one, limits, rounds, beside, beside) >= share * rates[0]:
            rates.append(scan(one, limits, rounds, *sorted((beside, last))))
    return max(rates)


def decode_seconds(floor: float, slope: float, bend: float) -> np.ndarray:
    return np.asarray(floor + slope * LADDER + bend * 1e-3 * np.sqrt(LADDER))


decode_times = st.builds(decode_seconds, st.floats(1e-3, 0.05), st.floats(1e-6, 1e-3), st.floats(0, 1))
limits_of_serving = st.builds(rules, st.floats(0.05, 5), st.floats(5e-3, 0.5))


@given(decode_times, limits_of_serving, st.floats(1e-3, 1), st.integers(1, 128), st.integers(8, 2048))
@settings(max_examples=150, deadline=None)
def test_best_batch_against_every_integer(
    decode: np.ndarray, limits: Rules, s_p: float, capacity: int, osl: int
) -> None:
    prefill = np.full_like(LADDER, s_p)
    rounds = rounds_of(decode, LADDER / osl, prefill, prefill)
    one = replica(float(capacity))
    found = best_batch(one, limits, LADDER, rounds)
    expected = scan(one, limits, rounds, 1, 128)
    assert found[0] <= expected * (1 + 1e-12)
    assert found[0] >= expected * (1 - 1e-9)


@given(
    decode_times, limits_of_serving, st.floats(1e-3, 1), st.floats(1, 4), st.integers(1, 128), st.integers(8, 2048),
    st.integers(2, 32),
)  # fmt: skip
@example(decode_seconds(0.037109375, 0.0009997549117485183, 0.0), rules(2.0, 0.5), 0.0859375, 2.0, 25, 24, 24)
@settings(max_examples=150, deadline=None)
def test_best_batch_in_lockstep_against_the_integers_around_the_best_rung(
    decode: np.ndarray, limits: Rules, lone: float, dearer: float, capacity: int, osl: int, dp: int
) -> None:
    """Waits and prefills are bent, and a rate of bent rounds may have a peak elsewhere: in the example at b = 25."""
    waits = lockstep_waits(LADDER / osl, dp)
    prefill = lone * (1 + (dearer - 1) * prefill_shares(LADDER / osl, waits, dp))
    rounds, one = rounds_of(decode, waits, prefill, prefill), replica(float(capacity), dp=float(dp))
    found, batch, at = best_batch(one, limits, LADDER, rounds)
    rates = [rate(one, limits, b, Round(*column)) for b, column in zip(LADDER, rounds.T.tolist(), strict=True)]
    rung = int(np.argmax(rates))
    assert found >= refined(one, limits, rounds, rung, 1 + 1e-12) * (1 - 1e-9)
    assert found <= refined(one, limits, rounds, rung, 1 - 1e-12) * (1 + 1e-9)
    assert found == pytest.approx(rate(one, limits, batch, at), rel=1e-12)


def test_the_best_rung_is_refined_on_both_sides() -> None:
    # b = 17 is a little better than the rung of 16, b = 15 much better.
    waits = lockstep_waits(LADDER / 114, 2)
    prefill = 0.078125 * (1 + 2 * prefill_shares(LADDER / 114, waits, 2))
    rounds = rounds_of(0.001953125 + 0.0005195816415060777 * LADDER, waits, prefill, prefill)
    one, limits = replica(17.0, dp=2.0), rules(1.0, 0.5)
    rung, above = (scan(one, limits, rounds, b, b) for b in (16, 17))
    found, batch, _ = best_batch(one, limits, LADDER, rounds)
    assert found > above > rung and batch == 15


def test_scores_do_not_jump_with_the_ladder() -> None:
    batches = 2.0 ** np.arange(9)
    prefill = np.full(9, 0.05)
    rounds = rounds_of(0.01 + 1e-4 * batches, batches / 1000, prefill, prefill)
    limits = [rules(tpot=tpot) for tpot in np.linspace(0.012, 0.04, 400)]
    scores = [best_batch(replica(), each, batches, rounds)[0] for each in limits]
    steps = np.diff(scores) / scores[1:]
    assert (steps >= 0).all() and steps.max() < 0.06  # one more sequence of about 20 at the most


def test_throttled_throughput_can_fall_with_the_batch() -> None:
    # A long prompt under a tight TTFT: more sequences need slower rounds, so the largest feasible b is not the best.
    batches = np.arange(1.0, 65)
    rounds = rounds_of(np.full(64, 0.005), batches / 64, np.full(64, 0.15), np.full(64, 0.15))
    one, limits = replica(), rules(0.5)
    rates = [rate(one, limits, b, Round(*column)) for b, column in zip(batches, rounds.T.tolist(), strict=True)]
    feasible = [value for value in rates if value > 0]
    assert feasible[-1] < max(feasible)
    found, batch, at = best_batch(one, limits, batches, rounds)
    assert found == max(feasible) == rates[int(batch) - 1]
    assert at == Round(*rounds[:, int(batch) - 1])
