"""Rows of results made up for tests."""

from __future__ import annotations

import hashlib
from typing import Any

from lts_bench.results.grids import Grid
from lts_bench.results.schema import Best, Cost, Optimum, Point, Provenance, Row, Status, score_of, trace_digest
from lts_bench.specs.suite import load_suite

PROVENANCE = Provenance(
    cost_model="1", package="0.1.0", commit=None, dirty=None, lock_digest="l", agent_digest="a", python="3.11",
    platform="Linux", cpu="x", cores=2, threads=1, utc="2026-01-01T00:00:00+00:00",
)  # fmt: skip
COST = Cost(
    evaluations=50, unique=40, infeasible=5, illegal=0, wall_s=1.0, agent_cpu_s=0.5, cost_model_s=0.1,
    peak_memory_bytes=1 << 26,
)  # fmt: skip


OPTIMUM = Optimum(goodput_per_npu=200.0, certified=True)


def grid(tasks: int = 2, seeds: int = 3) -> Grid:
    return Grid("mini", tuple(f"m/c/{i}" for i in range(tasks)), tuple(range(1, seeds + 1)), "e50")


def make_row(agent: str = "mine", task: str = "m/c/0", seed: int = 1, score: float | None = 1.0, **changes: Any) -> Row:
    """Return a row whose score is the given one; without one there is no solution."""
    strategy = {"tp": 8, "sharding": {"head": ["R", "vocabulary"]}}
    points = () if not score else (0.5 * score, score)
    trace = tuple(Point(i, 0.1 * i, 200.0 * goodput, (i, 0)) for i, goodput in enumerate(points, 1))
    best = Best(
        strategy=strategy, goodput_per_npu=200.0 * (score or 0.0), ttft_s=0.5, tpot_s=0.04, memory_bytes=1e9,
        slo_met=True, slo_margin=0.2,
    )  # fmt: skip
    status = Status.OK if score else Status.NO_SOLUTION
    fields: dict[str, Any] = {
        "run_id": hashlib.sha256(repr((agent, task, seed, changes.get("version"))).encode()).hexdigest(),
        "task": task, "task_digest": "d", "space_digest": "s", "track": "search", "agent": agent, "version": "1",
        "parameters": {}, "seed": seed, "instance": seed, "budget": "e50", "isolation": "child",
        "status": status, "error": None, "best": best if score else None, "replay": None,
        "first_feasible": 1 if score else None, "reference": 150.0, "optimum": OPTIMUM,
        "regret": 1 - score_of(status, best if score else None, OPTIMUM), "trace": trace,
        "trace_digest": trace_digest(trace), "cost": COST, "provenance": PROVENANCE,
    }  # fmt: skip
    return Row(**(fields | changes))


def real_grid() -> Grid:
    """Return the grid of a built-in suite, whose tasks have sizes and networks."""
    return Grid.of(load_suite("smoke"))


def make_rows(scores: dict[str, float | None], tasks: int = 2, seeds: int = 3, **changes: Any) -> list[Row]:
    """Return all cells of a grid; an agent has the same score in each."""
    return make_cells(grid(tasks, seeds), scores, **changes)


def make_cells(board: Grid, scores: dict[str, float | None], **changes: Any) -> list[Row]:
    """Return all cells of the given grid."""
    changes = {"budget": board.budget, **changes}
    return [
        make_row(agent, task, seed, score, **changes)
        for agent, score in scores.items()
        for task in board.tasks
        for seed in board.seeds
    ]
