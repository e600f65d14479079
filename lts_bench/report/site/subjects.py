"""The pages of an agent, over all suites, and of a task, over all agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lts_bench.report.cells import Cells
from lts_bench.report.leaderboard import Board
from lts_bench.report.site.cells import Cell, Table, numeric
from lts_bench.report.site.facts import OVER_RIVAL, RIVAL, mean_score, over_rival, runs_of
from lts_bench.report.site.overview import board_table
from lts_bench.report.site.paths import agent_page, run_page, suite_page, task_page
from lts_bench.report.statistics import SAME
from lts_bench.results.schema import Row
from lts_bench.specs.taskspec import TaskSpec


def agent_context(boards: Sequence[Board], agent: str) -> dict[str, Any]:
    """Return what the page of an agent shows: its places on the boards, then its tasks."""
    mine = [(board, key) for board in boards for key in board.cells if key[1] == agent]
    tasks = [(board, board.cells[key], task) for board, key in mine for task in sorted(board.grid.tasks)]
    factors = [factor for each in tasks if (factor := over_rival(*each)) is not None]
    titles = ("Suite", "Task", "Solved", "Score", OVER_RIVAL, "Runs")
    rows = [_agent_row(board, cells, agent, task) for board, cells, task in tasks]
    return {
        "title": agent,
        "tracks": sorted({track for _, (track, _) in mine}),
        "beaten": sum(factor > 1 + SAME for factor in factors),
        "compared": len(factors),
        "rival": RIVAL,
        "tables_shown": [
            board_table([board for board, _ in mine], f"{agent} on the boards", agent),
            Table("tasks", f"{agent} on each task", titles, rows, 1, (0,), frozenset({2, 3, 4})),
        ],
    }


def _agent_row(board: Board, cells: Cells, agent: str, task: str) -> list[Cell]:
    name = board.grid.name
    return [
        Cell(name, href=suite_page(name)),
        Cell(task, href=task_page(name, task)),
        _solved(runs_of(board, cells, task)),
        numeric(mean_score(board, cells, task)),
        numeric(over_rival(board, cells, task), ".3f"),
        Cell("runs", href=run_page(name, agent, task)),
    ]


def _solved(rows: Sequence[Row]) -> Cell:
    solved = sum(row.score > 0 for row in rows)
    return Cell(f"{solved}/{len(rows)}", solved / len(rows) if rows else 0.0)


def task_context(board: Board, task: str) -> dict[str, Any]:
    """Return what the page of a task shows: what it is, its optima, the agents' scores."""
    name = board.grid.name
    spec = next((spec for spec in board.grid.specs if spec.name == task), None)
    rows = [
        [
            Cell(entry.agent, href=agent_page(entry.agent)),
            Cell(entry.track),
            _solved(runs_of(board, cells, task)),
            numeric(mean_score(board, cells, task)),
            numeric(over_rival(board, cells, task), ".3f"),
            Cell("runs", href=run_page(name, entry.agent, task)),
        ]
        for entry in board.entries
        for cells in [board.cells[entry.track, entry.agent]]
    ]
    titles = ("Agent", "Track", "Solved", "Score", OVER_RIVAL, "Runs")
    scores = Table("agents", f"Agents on {task}", titles, rows, 0, (1,), frozenset({2, 3, 4}))
    facts = [_facts_table(spec)] if spec else []
    return {"title": task, "board": board, "tables_shown": [*facts, _optima(board, task), scores]}


def _facts_table(spec: TaskSpec) -> Table:
    slo = spec.workload.slo
    lines = {
        "model": spec.model,
        "cluster": spec.cluster,
        "engine profile": spec.engine,
        "input, output tokens": f"{spec.workload.isl:,}, {spec.workload.osl:,}",
        "limit on TTFT": f"{slo.ttft_ms:g} ms for {slo.percentile:g} % of requests" if slo.ttft_ms else "none",
        "limit on TPOT": f"{slo.tpot_ms:g} ms" if slo.tpot_ms else "none",
        "precision, of the KV cache": f"{spec.precision}, {spec.kv_precision}",
        "serving": spec.serving,
        "feedback": spec.feedback,
    }
    rows = [[Cell(name), Cell(text)] for name, text in lines.items()]
    return Table("facts", "The task", ("What", "Value"), rows, sortable=False)


def _optima(board: Board, task: str) -> Table:
    found: dict[int, Row] = {}
    for cells in board.cells.values():
        for row in runs_of(board, cells, task):
            found.setdefault(row.instance, row)
    rows = [
        [
            numeric(instance, "d"),
            numeric(row.optimum.goodput_per_npu, ",.1f"),
            Cell("yes" if row.optimum.certified else "no: a bound"),
            numeric(row.reference, ",.1f"),
        ]
        for instance, row in sorted(found.items())
        if row.optimum
    ]
    titles = ("Instance", "Optimum, tokens/s and NPU", "Certified", f"{RIVAL} on the nominal machine")
    return Table("optima", "What there is to reach", titles, rows, numbers=frozenset({0, 1, 3}))
