"""How fast traces are replayed on one core; `tox -e bench` prints the figures."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from lts_bench.serving.generate import generate, poisson
from lts_bench.serving.replay import replay
from lts_bench.serving.replay_document import Options, load_served, replay_document, replicas_of
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_lengths import Independent, LogNormal
from lts_bench.specs.workload import Slo

SLO = Slo(ttft_ms=500, tpot_ms=50)
STRATEGY = {"replicas": 1, "pp": 1, "dp": 1, "tp": 1}
CONVERSATION = 19_366
"""Requests of the Azure conversation trace of 2023, in 3,501.7 s; mean, median and maximum of its lengths are below."""


def conversation(count: int) -> Trace:
    lengths = Independent(LogNormal.from_mean(1154.7, 1020, 14_050), LogNormal.from_mean(211.1, 129, 1000))
    return generate(poisson(CONVERSATION / 3501.7), lengths, count, seed=0)


@pytest.mark.parametrize("engine", ["generic", "vllm"])
@pytest.mark.parametrize("count", [CONVERSATION, 1_000_000])
def test_replays(benchmark: Any, engine: str, count: int) -> None:
    served, trace = load_served(
        model="llama-3.1-8b", cluster="h100-1", strategy=STRATEGY, trace=conversation(count), slo=SLO, engine=engine,
        precision="config", kv_precision="config", source="strategy",
    )  # fmt: skip
    replicas = replicas_of(served, trace, Options())
    found = benchmark.pedantic(replay, (trace, replicas), rounds=3, warmup_rounds=1)
    assert not found.rejected.any()
    if benchmark.stats is not None:
        each_us = benchmark.stats.stats.min / len(trace) * 1e6
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"\n{engine}, {len(trace):,} requests: {each_us:.2f} us a request, peak of the process {peak_mb:.0f} MB")


def test_search_of_the_highest_rate(benchmark: Any) -> None:
    served, trace = load_served(
        model="llama-3.1-8b", cluster="h100-1", strategy=STRATEGY, trace=conversation(CONVERSATION), slo=SLO,
        engine="generic", precision="config", kv_precision="config", source="strategy",
    )  # fmt: skip
    document = benchmark.pedantic(replay_document, (served, trace, Options()), rounds=3, warmup_rounds=1)
    print(f"\n{document['search']['replays']} replays for {document['replayed_goodput']:.2f} requests/s")
