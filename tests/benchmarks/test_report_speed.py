"""How long a board of 10,000 cells takes, and its memory; `tox -e bench` prints the figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from made_rows import make_row

from lts_bench.results.grids import Grid
from lts_bench.results.schema import Point, Row, trace_digest
from lts_bench.results.store import encode_row, write_grid
from lts_bench.specs.suite import load_suite

CELLS = 10_000
REPORT = """
import contextlib, resource, sys, time
from lts_bench.cli import app
started = time.perf_counter()
with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
    app(["report", "runs.jsonl", "suite.json", "--out", "boards", *sys.argv[1:]])
print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


def with_trace(row: Row, rng: np.random.Generator) -> Row:
    """Return the row with twelve improvements up to its score."""
    assert row.best is not None
    evaluations = np.sort(rng.choice(1000, 12, replace=False)) + 1
    values = np.sort(rng.random(12))
    trace = tuple(
        Point(
            int(evaluation), 0.01 * float(evaluation), row.best.goodput_per_npu * float(value / values[-1]), (0,) * 60
        )
        for evaluation, value in zip(evaluations, values, strict=True)
    )
    best = msgspec.structs.replace(row.best, goodput_per_npu=trace[-1].goodput_per_npu)
    return msgspec.structs.replace(row, trace=trace, trace_digest=trace_digest(trace), best=best)


@pytest.mark.parametrize("options", [(), ("--site", "site")], ids=["tables and plots", "with the site"])
def test_report(benchmark: Any, tmp_path: Path, options: tuple[str, ...]) -> None:
    if benchmark.disabled:
        pytest.skip("a measurement of half a minute")
    rng, grid = np.random.default_rng(0), Grid.of(load_suite("core"))
    agents = [f"agent{i:02}" for i in range(CELLS // (len(grid.tasks) * len(grid.seeds)) + 1)]
    rows = [
        with_trace(make_row(agent, task, seed, float(rng.uniform(0.1, 1)), budget=grid.budget), rng)
        for agent in agents
        for task in grid.tasks
        for seed in grid.seeds
    ]
    (tmp_path / "runs.jsonl").write_bytes(b"".join(map(encode_row, rows)))
    write_grid(tmp_path, grid)
    command = [sys.executable, "-c", REPORT, *options]
    done = benchmark.pedantic(
        lambda: subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True), rounds=1
    )
    seconds, megabytes = map(float, done.stdout.split())
    print(f"\n{len(rows):,} cells of {len(agents)} agents: {seconds:.1f} s, {megabytes:.0f} MB at most")
