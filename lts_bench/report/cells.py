"""Cells of a board: which rows count, and their scores and traces as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from lts_bench.report.statistics import SAME, Floats
from lts_bench.results.grids import Grid
from lts_bench.results.schema import FAILED, Row
from lts_bench.specs.failure import InputError

Cells = dict[tuple[str, int], Row]
"""An agent's rows by task and seed."""
Axis = Literal["evaluation", "seconds"]

TARGETS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Regrets whose first evaluation counts; fixed, so that no figure depends on who else is on the board."""


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Return what orders versions of the cost model."""
    return tuple((int(part) if part.isdigit() else -1, part) for part in version.split("."))


def current_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the latest cost model among them."""
    latest = max((row.provenance.cost_model for row in rows), key=version_key, default="")
    return [row for row in rows if row.provenance.cost_model == latest]


def by_agent(rows: Iterable[Row]) -> dict[tuple[str, str], Cells]:
    """Return the rows by (track, agent), then by cell.

    Raises:
        InputError: two runs are of the same cell.
    """
    agents: dict[tuple[str, str], Cells] = defaultdict(dict)
    for row in rows:
        cells = agents[row.track, row.label]
        other = cells.setdefault((row.task, row.seed), row)
        if other.run_id != row.run_id:
            rule = f"the same agent, task and seed as {other.run_id}, though not the same run"
            raise InputError(rule, source=row.run_id, field="agent", value=row.label)
    return dict(sorted(agents.items()))


def score_matrix(grid: Grid, cells: Cells) -> list[list[float]]:
    """Return an agent's scores, tasks × seeds, both sorted; no cell may be missing."""
    return [[cells[task, seed].score for seed in sorted(grid.seeds)] for task in sorted(grid.tasks)]


def trace_scores(row: Row) -> Floats:
    """Return the score after each improvement; none for a failed cell."""
    if row.status in FAILED or row.optimum is None:
        return np.zeros(0)
    return np.array([point.goodput_per_npu for point in row.trace]) / row.optimum.goodput_per_npu


def scores_at(row: Row, places: Floats, axis: Axis) -> Floats:
    """Return the best score up to each place, in evaluations or seconds; 0 before the first."""
    scores = trace_scores(row)
    found = np.searchsorted([getattr(point, axis) for point in row.trace[: len(scores)]], places, side="right")
    best: Floats = np.concatenate([[0.0], scores])[found]
    return best


def first_evaluations(cells: Cells) -> Floats:
    """Return the evaluation that first reached each target in each cell, infinite where none did."""
    return np.concatenate([_firsts(row) for _, row in sorted(cells.items())])


def _firsts(row: Row) -> Floats:
    scores = trace_scores(row)
    found = np.searchsorted(scores, 1 - np.array(TARGETS) - SAME)
    evaluations = np.array([*(point.evaluation for point in row.trace[: len(scores)]), np.inf])
    firsts: Floats = evaluations[found]
    return firsts
