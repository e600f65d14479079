from __future__ import annotations

import csv
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.serving.read_trace import read_trace
from lts_bench.serving.trace import PrefixBlocks, Trace
from lts_bench.serving.trace_prefix import prefix_hit_tokens
from lts_bench.serving.trace_summary import trace_document

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason="the heads of real traces are not here")


def published(name: str) -> dict[str, str]:
    with (TRACES / "trace_stats.csv").open(encoding="utf-8", newline="") as file:
        return next(row for row in csv.DictReader(file) if row["trace"] == name)


@needs_traces
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-32b"])
def test_a_whole_trace_has_its_published_figures(model: str) -> None:
    found = trace_document(read_trace(TRACES / f"sharegpt-{model}-300-sps10.csv"))
    wanted = published(f"llmservingsim_sharegpt-{model}-300-sps10")
    pairs: list[tuple[Any, str]] = [
        (found["requests"], "rows"),
        (found["duration_s"], "duration_s"),
        (found["requests_per_s"], "mean_rps"),
        (found["interarrival_cv"], "interarrival_cv"),
        *((found["bursts"][width]["dispersion"], f"idc_{width}") for width in ("1s", "10s", "60s")),
        *((found["bursts"][width]["peak_to_mean"], f"peak_to_mean_{width}") for width in ("1s", "10s", "60s")),
        *((found["prompt_tokens"][key], f"in_{key}") for key in ("mean", "p50", "p90", "p99", "max")),
        *((found["output_tokens"][key], f"out_{key}") for key in ("mean", "p50", "p90", "p99", "max")),
    ]
    for value, column in pairs:
        digits = min(len(wanted[column].partition(".")[2]), 6)
        assert value == pytest.approx(float(wanted[column]), abs=0.51 * 10**-digits), column


@needs_traces
def test_the_head_of_a_trace_shares_less_than_all_of_it() -> None:
    found = trace_document(read_trace(TRACES / "mooncake_fast25_conversation.head300.jsonl"))
    wanted = float(published("mooncake_fast25_conversation")["prefix_block_hit_ratio_infinite_cache"])
    assert 0 < found["prefix"]["hit_ratio"] < wanted


def test_bins() -> None:
    ones = np.ones(5, dtype=np.int64)
    document = trace_document(Trace(np.array([0, 0.1, 0.2, 1.5, 3.0]), ones, ones))
    assert document["peak_requests_per_s"] == 3
    # Requests in a second: 3, 1, 1 (the last one at the very end).
    assert document["bursts"]["1s"] == {
        "peak_to_mean": pytest.approx(9 / 5),
        "dispersion": pytest.approx(8 / 9 / (5 / 3)),
    }
    assert document["bursts"]["60s"] == {"peak_to_mean": 1, "dispersion": 0}


def test_bins_of_a_trace_in_a_wrong_unit() -> None:
    ones = np.ones(2, dtype=np.int64)
    assert trace_document(Trace(np.array([0, 1e18]), ones, ones))["bursts"]["1s"]["dispersion"] == pytest.approx(1)


@given(st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=12), st.integers(1, 8), st.integers(0, 7))
def test_hits_are_the_longest_known_beginnings(lists: list[list[int]], block_tokens: int, cut: int) -> None:
    counts = [len(each) for each in lists]
    prompt = np.array([max(1, count * block_tokens - min(cut, block_tokens - 1)) for count in counts])
    blocks = PrefixBlocks(
        np.concatenate([[0], np.cumsum(counts)]), np.array([*chain.from_iterable(lists)], dtype=np.int64), block_tokens
    )
    hits = prefix_hit_tokens(Trace(np.zeros(len(lists)), prompt, np.ones(len(lists), np.int64), blocks))
    known: set[int] = set()
    for each, tokens, hit in zip(lists, prompt, hits, strict=True):
        run = next((i for i, block in enumerate(each) if block not in known), len(each))
        assert hit == min(run * block_tokens, tokens)
        known.update(each)
