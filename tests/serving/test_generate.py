from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lts_bench.serving.generate import Arrivals, Gamma, OnOff, generate, poisson
from lts_bench.serving.read_trace import read_trace
from lts_bench.serving.trace_lengths import Fixed, Independent, LogNormal, Resampled
from lts_bench.serving.trace_summary import trace_document
from lts_bench.specs.failure import InputError

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
LENGTHS = Independent(LogNormal.from_mean(1154.7, 1020), Fixed(16))
rates = st.floats(0.01, 1000)


@pytest.mark.parametrize("arrivals", [poisson(2), Gamma(2, 3), Gamma(2, 0), OnOff(2, 5, 15)])
def test_one_seed_makes_one_trace(arrivals: Arrivals) -> None:
    one, same, other = (generate(arrivals, LENGTHS, 100, seed) for seed in (7, 7, 8))
    assert one.arrival_s.tobytes() == same.arrival_s.tobytes()
    assert one.prompt_tokens.tobytes() == same.prompt_tokens.tobytes()
    assert one.prompt_tokens.tolist() != other.prompt_tokens.tolist()
    assert (one.arrival_s.tolist() == other.arrival_s.tolist()) == (arrivals == Gamma(2, 0))


@given(rate=rates, cv=st.just(0) | st.floats(0.01, 3), factor=st.floats(0.1, 10), seed=st.integers(0, 2**32))
def test_another_rate_only_scales_the_times(rate: float, cv: float, factor: float, seed: int) -> None:
    slow, fast = (generate(Gamma(each, cv), LENGTHS, 20, seed) for each in (rate, rate * factor))
    assert np.allclose(slow.arrival_s, fast.arrival_s * factor)
    assert slow.prompt_tokens.tolist() == fast.prompt_tokens.tolist()


@settings(max_examples=20, deadline=None)
@given(rate=rates, cv=st.just(0) | st.floats(0.01, 2))
def test_gamma_gaps_have_the_mean_and_the_variation_asked_for(rate: float, cv: float) -> None:
    gaps_s = Gamma(rate, cv).gaps_s(200_000, np.random.default_rng(0))
    assert gaps_s.mean() * rate == pytest.approx(1, rel=0.03)
    assert gaps_s.std() * rate == pytest.approx(cv, rel=0.05, abs=1e-9)


def test_poisson_counts_are_as_scattered_as_they_are_many() -> None:
    bursts = trace_document(generate(poisson(20), LENGTHS, 100_000, 0))["bursts"]
    assert bursts["1s"]["dispersion"] == pytest.approx(1, rel=0.1)


@settings(max_examples=20, deadline=None)
@given(rate=st.floats(0.1, 10), on_s=st.floats(1, 20), off_s=st.floats(1, 20))
def test_bursts_keep_the_mean_rate_and_vary_as_the_theory_says(rate: float, on_s: float, off_s: float) -> None:
    gaps_s = OnOff(rate, on_s, off_s).gaps_s(400_000, np.random.default_rng(0))
    # The interrupted Poisson process: its gaps' cv² by the rates a and b at which it is switched off and on.
    a, b, rate_on = 1 / on_s, 1 / off_s, rate * (on_s + off_s) / on_s
    assert gaps_s.mean() * rate == pytest.approx(1, rel=0.05)
    assert (gaps_s.std() / gaps_s.mean()) ** 2 == pytest.approx(1 + 2 * rate_on * a / (a + b) ** 2, rel=0.1)


@given(mean=st.floats(50, 5000), ratio=st.floats(0.3, 1))
def test_lognormal_lengths_by_mean_and_median(mean: float, ratio: float) -> None:
    fitted = LogNormal.from_mean(mean, mean * ratio)
    assert fitted.median * np.exp(fitted.sigma**2 / 2) == pytest.approx(mean)
    assert fitted.median == pytest.approx(mean * ratio)


@given(median=st.floats(10, 5000), sigma=st.floats(0, 2))
def test_lognormal_lengths_by_percentiles(median: float, sigma: float) -> None:
    z = {50: 0.0, 90: 1.2815515655446004, 99: 2.3263478740408408}
    fitted = LogNormal.from_percentiles({percent: median * np.exp(sigma * each) for percent, each in z.items()})
    assert (fitted.median, fitted.sigma) == (pytest.approx(median), pytest.approx(sigma, abs=1e-9))


def test_lognormal_draws_meet_the_fit_and_its_limit() -> None:
    tokens = LogNormal.from_mean(1154.7, 1020, longest=4096).tokens(100_000, np.random.default_rng(0))
    assert np.median(tokens) == pytest.approx(1020, rel=0.01)
    assert tokens.mean() == pytest.approx(1154.7, rel=0.01)
    assert 1 <= tokens.min() <= tokens.max() <= 4096


@pytest.mark.skipif(not TRACES.exists(), reason="the heads of real traces are not here")
def test_resampled_lengths_stay_together() -> None:
    source = read_trace(TRACES / "azure_llm_2023_conv.head2000.csv")
    made = generate(poisson(5), Resampled(source), 50_000, seed=0)
    pairs = set(zip(source.prompt_tokens.tolist(), source.output_tokens.tolist(), strict=True))
    assert set(zip(made.prompt_tokens.tolist(), made.output_tokens.tolist(), strict=True)) <= pairs
    assert made.prompt_tokens.mean() == pytest.approx(source.prompt_tokens.mean(), rel=0.03)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: poisson(0), "requests_per_s"),
        (lambda: poisson(float("nan")), "requests_per_s"),
        (lambda: Gamma(1, -1), "cv"),
        (lambda: Gamma(1, 1e-300), "cv"),
        (lambda: OnOff(1, 0, 5), "on_s"),
        (lambda: OnOff(1, 5, float("inf")), "off_s"),
        (lambda: Fixed(0), "length"),
        (lambda: LogNormal(0, 1), "median"),
        (lambda: LogNormal(1, -1), "sigma"),
        (lambda: LogNormal(1, 1, longest=0), "longest"),
        (lambda: LogNormal.from_mean(10, 20), "mean"),
        (lambda: LogNormal.from_percentiles({50: 10}), "percentiles"),
        (lambda: LogNormal.from_percentiles({50: 10, 100: 20}), "percentiles"),
        (lambda: LogNormal.from_percentiles({50: 10, 90: 5}), "percentiles"),
        (lambda: generate(poisson(1), LENGTHS, 0, 0), "count"),
        (lambda: generate(poisson(1), LENGTHS, 1, -1), "seed"),
    ],
)
def test_parameters_out_of_range(make: Callable[[], Any], field: str) -> None:
    with pytest.raises(InputError, match=rf"^{field}: must"):
        make()


def test_one_request_arrives_at_0() -> None:
    trace = generate(poisson(1), LENGTHS, 1, 0)
    assert trace.arrival_s.tolist() == [0]
