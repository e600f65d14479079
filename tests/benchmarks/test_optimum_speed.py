"""How long certified optima take, and how near millions of random strategies come to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lts_bench
from lts_bench.exact import Optimum, optimum
from lts_bench.exact.search import SAME
from lts_bench.specs.suite import load_suite
from lts_bench.task import Task

LARGE = {
    "palm-540b on 4,096 TPU v5p": ("palm-540b", "tpu-v5p-16x16x16", "isl=8192,osl=512,ttft_ms=1000,tpot_ms=40"),
    "deepseek-v3 on 1,024 H100": ("deepseek-v3", "h100x1024", "isl=2048,osl=1024,ttft_ms=1000,tpot_ms=40"),
    "moe-1.6t on 4,096 H100": ("moe-1.6t", "h100x4096", "isl=2048,osl=512,ttft_ms=600,tpot_ms=30"),
}
CORE = [task.name for task in load_suite("core").tasks]
MANY = CORE[:3]
"""Tasks on which ten million strategies are tried."""
MILLION = 1_000_000
CHUNK = MILLION // 4
FEW = 20_000
"""Strategies where nothing is measured."""


@pytest.mark.parametrize("name", LARGE)
def test_seconds_to_a_certified_optimum(benchmark: Any, name: str) -> None:
    model, cluster, workload = LARGE[name]
    task = lts_bench.make_task(model=model, cluster=cluster, workload=workload)
    assert task.reference.goodput_per_npu > 0
    found: Optimum = benchmark.pedantic(optimum, (task,), rounds=2, warmup_rounds=1)
    assert found.certified
    if benchmark.stats is not None:
        print(f"\n{name}: {benchmark.stats.stats.min:.2f} s")


def best_of_random(task: Task, count: int) -> float:
    """The highest goodput of so many random strategies."""
    rng, best = np.random.default_rng(0), 0.0
    for begin in range(0, count, CHUNK):
        vectors = task.space.sample(min(CHUNK, count - begin), rng)
        best = max(best, float(task.evaluate(vectors)["goodput_per_npu"].max()))
    return best


@pytest.mark.parametrize(("name", "count"), [(name, MILLION * (10 if name in MANY else 1)) for name in CORE])
def test_random_strategies_stay_below_the_certificate(benchmark: Any, name: str, count: int) -> None:
    if benchmark.disabled:
        count = FEW
    task = lts_bench.load_task(name)
    found = optimum(task)
    best = benchmark.pedantic(best_of_random, (task, count), rounds=1)
    assert found.certified
    assert best <= found.bound * (1 + SAME)
    if benchmark.stats is not None:
        print(f"\n{name}: the best of {count:,} random strategies reaches {best / found.goodput_per_npu:.4f}")
