"""What the harness costs: transport to agents, isolation, executors; `tox -e bench` prints the figures."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sandboxes import needs_bubblewrap
from small_task import OPTIMUM, agent_file, small_cell

import lts_bench
from lts_bench.budget import Budget
from lts_bench.harness.execute import finished, open_pool
from lts_bench.harness.runner import run_cell
from lts_bench.harness.session import Options, overridden, run_suite
from lts_bench.specs.suite import load_suite

BATCHED = """
    import time
    batch = problem.space.sample(1000, rng)
    problem.evaluate(batch)
    started = time.perf_counter()
    for _ in range(COUNT // 1000):
        problem.evaluate(batch)
    print(COUNT / (time.perf_counter() - started))
"""
SINGLY = """
    import time
    vector = problem.space.sample(1, rng)
    problem.evaluate(vector)
    started = time.perf_counter()
    for _ in range(COUNT):
        problem.evaluate(vector)
    print(COUNT / (time.perf_counter() - started))
"""


@pytest.mark.parametrize("isolation", ["in_process", "child", pytest.param("sealed", marks=needs_bubblewrap)])
@pytest.mark.parametrize(
    ("body", "count", "unit"),
    [(BATCHED, 200_000, "strategies/s in batches of 1,000"), (SINGLY, 20_000, "calls/s")],
)
def test_transport(benchmark: Any, tmp_path: Path, isolation: str, body: str, count: int, unit: str) -> None:
    """Of a task like any other: its tables are there when the agent's clock starts."""
    task = lts_bench.make_task(model="llama-3.1-70b", cluster="h100x64", workload="isl=1024,osl=1024,tpot_ms=50")
    asked = str(1000 if benchmark.disabled else count)
    cell = small_cell(
        agent_file(tmp_path, body.replace("COUNT", asked)), isolation=isolation, budget=Budget("e1m", 10**6, 600.0)
    )
    run = benchmark.pedantic(run_cell, (cell, task, OPTIMUM, tmp_path / "log"), rounds=1)
    assert run.status in ("ok", "no_solution"), run.error
    print(f"\n{isolation}: {float((tmp_path / 'log').read_text()):,.0f} {unit}")


@pytest.mark.parametrize("isolation", ["child", pytest.param("sealed", marks=needs_bubblewrap)])
def test_overhead_of_isolation_for_ppo_on_smoke(benchmark: Any, tmp_path: Path, isolation: str) -> None:
    """Elapsed seconds of whole runs with one worker, imports included."""
    if benchmark.disabled:
        pytest.skip("a measurement of a minute")
    suite = overridden(load_suite("smoke"), agents=["ppo"], seeds=3, budget="e1k")
    seconds: dict[str, float] = {}

    def measure() -> None:
        for level in ("in_process", isolation):
            started = time.perf_counter()
            run_suite(suite, Options(out=tmp_path / level, isolation=level), lambda *told: None)
            seconds[level] = time.perf_counter() - started

    benchmark.pedantic(measure, rounds=1)
    print(f"\nppo on smoke, e1k: {seconds}, {isolation} takes {seconds[isolation] / seconds['in_process'] - 1:+.1%}")


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_efficiency_of_executors(benchmark: Any, executor: str) -> None:
    """Calls of a second on two processors, against the ideal."""
    if benchmark.disabled:
        pytest.skip("a measurement of half a minute")
    calls, cluster = 20, None
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    if executor == "ray":
        utils = pytest.importorskip("ray.cluster_utils", reason="the extra ray is not installed")
        cluster = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        os.environ["RAY_ADDRESS"] = cluster.address
    with open_pool(executor, 2) as pool:
        # Processes start.
        list(finished(pool, nap, [(0.1,), (0.1,)]))
        started = time.perf_counter()
        benchmark.pedantic(lambda: list(finished(pool, nap, [(1.0,)] * calls)), rounds=1)
        seconds = time.perf_counter() - started
    if cluster is not None:
        cluster.shutdown()
        del os.environ["RAY_ADDRESS"]
    print(f"\n{executor}: {calls} calls of 1 s on 2 processors in {seconds:.2f} s, {calls / 2 / seconds:.1%} of ideal")
