"""How fast the hot paths are; `tox -e bench` prints the figures. Only ratios within one run are asserted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lts_bench
from lts_bench.task import Task

VECTORS = 1_000_000
TASKS = {
    "llama-3.1-70b on 64 H100": ("llama-3.1-70b", "h100x64", "isl=1024,osl=1024,ttft_ms=2000,tpot_ms=50"),
    "deepseek-v3 on 256 H100": ("deepseek-v3", "h100x256", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
    "moe-1.6t on 1,024 H100": ("moe-1.6t", "h100x1024", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
}


def make(name: str) -> Task:
    model, cluster, workload = TASKS[name]
    return lts_bench.make_task(model=model, cluster=cluster, workload=workload)


@pytest.mark.parametrize("name", TASKS)
def test_strategies_per_second(benchmark: Any, name: str) -> None:
    task = make(name)
    vectors = task.space.sample(VECTORS, np.random.default_rng(0))
    answers = benchmark.pedantic(task.evaluate, (vectors,), rounds=5, warmup_rounds=1)
    assert answers["legal"].all()
    if benchmark.stats is not None:
        print(f"\n{name}: {VECTORS / benchmark.stats.stats.min / 1e6:.2f} million strategies/s")


@pytest.mark.parametrize("name", TASKS)
def test_table_build(benchmark: Any, name: str) -> None:
    cost = benchmark.pedantic(lambda: make(name).cost, rounds=3, warmup_rounds=1)
    print(f"\n{name}: {len(cost.tables.degrees)} degrees, tables of {cost.tables.nbytes / 1e6:.1f} MB")


def test_one_strategy_through_python(benchmark: Any) -> None:
    task = make("deepseek-v3 on 256 H100")
    vector = task.space.sample(1, np.random.default_rng(0))
    benchmark(task.evaluate, vector)


def test_batches_beat_single_calls(benchmark: Any) -> None:
    import time

    task = make("llama-3.1-70b on 64 H100")
    vectors = task.space.sample(20_000, np.random.default_rng(0))
    task.evaluate(vectors)
    started = time.perf_counter()
    singly = [task.evaluate(vectors[index : index + 1])[0] for index in range(2_000)]
    each_s = (time.perf_counter() - started) / 2_000
    together = benchmark.pedantic(task.evaluate, (vectors,), rounds=5)
    assert list(together[:2_000]) == singly
    if benchmark.stats is not None:
        batched_s = benchmark.stats.stats.min / len(vectors)
        print(f"\na batch is {each_s / batched_s:.1f} × as fast a strategy as single calls")
        assert batched_s < each_s


def test_help_answers_at_once(benchmark: Any) -> None:
    command = [sys.executable, "-m", "lts_bench", "--help"]
    benchmark.pedantic(subprocess.run, (command,), {"check": True, "capture_output": True}, rounds=3)
