from __future__ import annotations

import numpy as np
import pytest

from lts_bench.serving.metrics import BINS, Tariff, attainment, expenses, load_over_time, met, spread, summary
from lts_bench.serving.replay import Replayed
from lts_bench.serving.trace import Trace
from lts_bench.specs.workload import Slo

NAN = np.nan


def replayed() -> Replayed:
    """Four requests: TTFT 100, 500, 900 ms and a rejected one; TPOT 50 ms, none (one token), 100 ms."""
    trace = Trace(np.array([0.0, 0.0, 1.0, 2.0]), np.array([10, 20, 30, 4000]), np.array([11, 1, 21, 5]))
    return Replayed(
        trace,
        admitted_s=np.array([0.0, 0.1, 1.4, NAN]),
        first_token_s=np.array([0.1, 0.5, 1.9, NAN]),
        finish_s=np.array([0.6, 0.5, 3.9, NAN]),
        reused_tokens=np.array([0, 12, 0, 0]),
        preempted=np.array([0, 0, 2, 0]),
        busy_s=np.array([[0.0, 0.6], [1.4, 3.9]]),
        peak_kv_blocks=7,
    )


def test_limits_are_met_exactly() -> None:
    found = replayed()
    assert met(found, Slo(ttft_ms=500, tpot_ms=50)).tolist() == [True, True, False, False]
    assert met(found, Slo(ttft_ms=499.9)).tolist() == [True, False, False, False]
    assert met(found, Slo(tpot_ms=49.9)).tolist() == [False, True, False, False]
    # Without limits all that are answered count.
    assert attainment(found, Slo()) == 0.75


def test_spread() -> None:
    assert spread(np.array([1.0, NAN, 3.0])) == {"mean": 2, "p50": 2, "p90": 2.8, "p95": 2.9, "p99": 2.98}
    assert spread(np.array([NAN])) is None


def test_summary_by_hand() -> None:
    found = summary(replayed(), Slo(ttft_ms=500, tpot_ms=50))
    assert found["requests"] == 4 and found["rejected"] == 1
    assert found["attainment"] == 0.5
    assert found["ttft_ms"]["mean"] == pytest.approx(500)
    assert found["tpot_ms"]["mean"] == pytest.approx(75)
    assert found["latency_ms"]["p50"] == pytest.approx(600)
    assert found["duration_s"] == 3.9
    assert found["output_tokens_per_s"] == pytest.approx(33 / 3.9)
    assert found["good_requests_per_s"] == pytest.approx(2 / 3.9)
    assert found["preemptions"] == 2
    assert found["reused_prompt_share"] == pytest.approx(12 / 4060)


def test_load_adds_up() -> None:
    found = replayed()
    load = load_over_time(found)
    width = 3.9 / BINS
    assert len(load["end_s"]) == BINS and load["end_s"][-1] == 3.9
    # Mean numbers times time are the sums of the requests' own times.
    assert sum(load["queued"]) * width == pytest.approx(0.1 + 0.4)
    assert sum(load["service"]) * width == pytest.approx(0.6 + 0.4 + 2.5)
    assert sum(load["utilisation"]) * width == pytest.approx(0.6 + 2.5)
    assert load["utilisation"][0] == pytest.approx(1)


def test_cost_and_energy() -> None:
    found = expenses(replayed(), Tariff(8, price_per_hour=2.0, power_w=700))
    device_s = 8 * 3.9
    assert found["cost_per_million_output"] == pytest.approx(device_s / 3600 * 2 / 33 * 1e6)
    assert found["cost_per_million_total"] == pytest.approx(device_s / 3600 * 2 / 93 * 1e6)
    assert found["joule_per_output_token"] == pytest.approx(device_s * 700 / 33)
    assert found["joule_per_token"] == pytest.approx(device_s * 700 / 93)
    assert set(expenses(replayed(), Tariff(8)).values()) == {None}


def test_nothing_answered() -> None:
    trace = Trace(np.zeros(1), np.array([10]), np.array([1]))
    nothing = np.array([NAN])
    found = Replayed(trace, nothing, nothing, nothing, np.zeros(1, int), np.zeros(1, int), np.empty((0, 2)), 0)
    told = summary(found, Slo(ttft_ms=1))
    assert told["attainment"] == 0 and told["ttft_ms"] is None and told["output_tokens_per_s"] is None
    assert load_over_time(found)["queued"] == []
    assert set(expenses(found, Tariff(1, 1.0, 1.0)).values()) == {None}
