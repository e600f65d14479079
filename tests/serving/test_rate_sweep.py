from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lts_bench.cli import app
from lts_bench.report.latency_plot import latency_figure, plot_kind
from lts_bench.serving.generate import generate, poisson
from lts_bench.serving.metrics import attainment
from lts_bench.serving.rate_sweep import SHARES, rate_sweep
from lts_bench.serving.replay import replay
from lts_bench.serving.replay_document import Options, load_served, replicas_of
from lts_bench.serving.step_tables import Served
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_csv import write_trace
from lts_bench.serving.trace_lengths import Fixed, Independent
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import Slo

STRATEGY = {"replicas": 1, "pp": 1, "dp": 1, "tp": 1}
TRACE = generate(poisson(4.0), Independent(Fixed(400), Fixed(50)), 300, seed=0)
SLO = Slo(ttft_ms=200, tpot_ms=20, percentile=95)


def served(trace: Trace) -> Served:
    found, _ = load_served(
        model="llama-3.1-8b", cluster="h100-1", strategy=STRATEGY, trace=trace, slo=SLO, engine="generic",
        precision="config", kv_precision="config", source="s.json",
    )  # fmt: skip
    assert isinstance(found, Served)
    return found


def test_a_sweep_replays_at_every_rate() -> None:
    one = served(TRACE)
    points = rate_sweep(one, TRACE, Options(), 10.0)
    rates = [point["requests_per_s"] for point in points]
    assert rates == pytest.approx(SHARES * 10 * TRACE.requests_per_s)
    found = replay(TRACE.scaled(10 * SHARES[3]), replicas_of(one, TRACE, Options()))
    assert points[3]["attainment"] == attainment(found, SLO)
    assert points[3]["ttft_ms"]["p90"] == pytest.approx(np.percentile(found.ttft_s * 1e3, 90))
    # More load never makes the median answer faster.
    assert (np.diff([point["tpot_ms"]["p50"] for point in points]) > 0).all()


def test_a_trace_without_a_rate_is_told() -> None:
    at_once = replace(TRACE, arrival_s=np.zeros(len(TRACE)))
    with pytest.raises(InputError, match="--plot: needs a trace with a rate"):
        rate_sweep(served(TRACE), at_once, Options(), 1.0)


def test_the_figure_is_the_same_bytes_and_takes_what_is_missing() -> None:
    points = rate_sweep(served(TRACE), TRACE, Options(), 1.0)
    # Where all requests are rejected there are no latencies.
    points[0] |= {"ttft_ms": None, "tpot_ms": None}
    first, again = (latency_figure(points, Slo(tpot_ms=20), "svg") for _ in range(2))
    assert first == again and b"<svg" in first


def test_the_command_draws_and_refuses_other_kinds(tmp_path: Path) -> None:
    trace, strategy = tmp_path / "trace.csv", tmp_path / "one.json"
    write_trace(trace, TRACE)
    strategy.write_text('{"replicas": 1, "pp": 1, "dp": 1, "tp": 1}')
    words = ["replay", "--model", "llama-3.1-8b", "--cluster", "h100-1", "--strategy", str(strategy)]
    words += ["--trace", str(trace), "--slo", "ttft_ms=200,tpot_ms=20", "--plot"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "rate.png")], catch_exceptions=False)
    assert done.exit_code == 0 and (tmp_path / "rate.png").read_bytes().startswith(b"\x89PNG")
    write_trace(trace, replace(TRACE, arrival_s=np.zeros(len(TRACE))))
    refused = CliRunner().invoke(app, [*words, str(tmp_path / "none.png")])
    assert isinstance(refused.exception, InputError) and refused.stdout == ""
    assert not (tmp_path / "none.png").exists()
    with pytest.raises(InputError, match=r"--plot: no such kind of figure .*legal: \.svg, \.png"):
        plot_kind(tmp_path / "rate.jpeg")
