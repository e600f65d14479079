"""How fast the hot paths are; `tox -e bench` prints the figures. Only ratios within one run are asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import lts_bench
from lts_bench.answer import ANSWER
from lts_bench.cost.vectorised import evaluate_all
from lts_bench.task import Task

VECTORS = 1_000_000
TASKS = {
    "llama-3.1-70b on 64 H100": ("llama-3.1-70b", "h100x64", "isl=1024,osl=1024,ttft_ms=2000,tpot_ms=50"),
    "deepseek-v3 on 256 H100": ("deepseek-v3", "h100x256", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
    "moe-1.6t on 1,024 H100": ("moe-1.6t", "h100x1024", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
    "moe-1.6t on 4,096 H100": ("moe-1.6t", "h100x4096", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
}


def make(name: str) -> Task:
    model, cluster, workload = TASKS[name]
    return lts_bench.make_task(model=model, cluster=cluster, workload=workload)


POOLS = {
    "llama-3.1-8b, two pools on 8 H100": ("llama-3.1-8b", "h100x8", "isl=2048,osl=256,ttft_ms=300,tpot_ms=20"),
    "qwen3-235b, two pools on 32 H100": ("qwen3-235b-a22b", "h100x32", "isl=2048,osl=512,ttft_ms=1000,tpot_ms=30"),
}


@pytest.mark.parametrize("name", POOLS)
def test_strategies_of_two_pools_per_second(benchmark: Any, name: str) -> None:
    model, cluster, workload = POOLS[name]
    task = lts_bench.make_task(model=model, cluster=cluster, workload=workload, serving="disaggregated")
    vectors = task.space.sample(VECTORS // 4, np.random.default_rng(0))
    answers = benchmark.pedantic(task.evaluate, (vectors,), rounds=5, warmup_rounds=1)
    assert answers["legal"].all()
    if benchmark.stats is not None:
        print(f"\n{name}: {len(vectors) / benchmark.stats.stats.min / 1e6:.2f} million strategies/s")


@pytest.mark.parametrize("name", TASKS)
def test_strategies_per_second(benchmark: Any, name: str) -> None:
    task = make(name)
    vectors = task.space.sample(VECTORS, np.random.default_rng(0))
    answers = benchmark.pedantic(task.evaluate, (vectors,), rounds=5, warmup_rounds=1)
    assert answers["legal"].all()
    if benchmark.stats is not None:
        print(f"\n{name}: {VECTORS / benchmark.stats.stats.min / 1e6:.2f} million strategies/s")


@numba.njit
def read(table: np.ndarray, rows: np.ndarray, sums: np.ndarray) -> None:
    """Read one row of the table after the other, as many for every strategy as it has edges."""
    for strategy in range(rows.shape[0]):
        total = 0.0
        for edge in range(rows.shape[1]):
            for phase in range(table.shape[1]):
                total += table[rows[strategy, edge], phase]
        sums[strategy] = total


@pytest.mark.parametrize("name", TASKS)
def test_raw_gather(benchmark: Any, name: str) -> None:
    """The bound: random rows of as many bytes are read and nothing else is done."""
    program = make(name).cost.program
    table, edges = program.lines[0], len(program.edges.source) + len(program.prompts.source)
    rows = np.random.default_rng(0).integers(table.shape[0], size=(VECTORS // 4, edges), dtype=np.uint32)
    sums = np.empty(len(rows))
    benchmark.pedantic(read, (table, rows, sums), rounds=5, warmup_rounds=1)
    if benchmark.stats is not None:
        rate = len(rows) / benchmark.stats.stats.min / 1e6
        print(f"\n{name}: one line of each of {edges} rows is read at {rate:.2f} million strategies/s")


def test_without_compilation(benchmark: Any) -> None:
    task = make("llama-3.1-70b on 64 H100")
    vectors = task.space.sample(20_000, np.random.default_rng(0))
    answers, points = np.empty(len(vectors), dtype=ANSWER), np.empty((0, 2))
    benchmark.pedantic(evaluate_all, (task.cost.program, vectors, answers, points), rounds=3)
    assert (answers == task.evaluate(vectors)).all()


ONE_STRATEGY = """
import lts_bench, numpy as np
task = lts_bench.make_task(model={!r}, cluster={!r}, workload={!r})
task.evaluate(task.space.sample(1, np.random.default_rng(0)))
"""
ONE_KEPT_FUNCTION = "import sys; sys.path.append({!r}); import numpy; from kept import same; same(1)"


def test_a_second_process_starts(benchmark: Any) -> None:
    command = [sys.executable, "-c", ONE_STRATEGY.format(*TASKS["deepseek-v3 on 256 H100"])]
    benchmark.pedantic(subprocess.run, (command,), {"check": True}, rounds=5, warmup_rounds=1)


def test_a_second_process_loads_any_machine_code(benchmark: Any, tmp_path: Path) -> None:
    """What NumPy, the compiler's import and the loading of one line take of the second process."""
    (tmp_path / "kept.py").write_text("import numba\nsame = numba.njit(cache=True)(lambda x: x)\n")
    command = [sys.executable, "-c", ONE_KEPT_FUNCTION.format(str(tmp_path))]
    benchmark.pedantic(subprocess.run, (command,), {"check": True}, rounds=5, warmup_rounds=1)


def test_a_strategy_is_evaluated_at_once(benchmark: Any, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"tp": 8}')
    model, cluster, workload = TASKS["llama-3.1-70b on 64 H100"]
    given = ["--model", model, "--cluster", cluster, "--workload", workload, "--strategy", str(tmp_path / "s.json")]
    command = [sys.executable, "-m", "lts_bench", "evaluate", *given]
    benchmark.pedantic(subprocess.run, (command,), {"check": True, "stdout": subprocess.DEVNULL}, rounds=5)


@pytest.mark.parametrize("name", TASKS)
def test_table_build(benchmark: Any, name: str) -> None:
    cost = benchmark.pedantic(lambda task: task.cost, setup=lambda: ((make(name),), {}), rounds=5, warmup_rounds=1)
    print(f"\n{name}: {len(cost.tables.degrees)} degrees, tables of {cost.tables.nbytes / 1e6:.1f} MB")


def test_one_strategy_through_python(benchmark: Any) -> None:
    task = make("deepseek-v3 on 256 H100")
    vector = task.space.sample(1, np.random.default_rng(0))
    task.evaluate(vector)
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
