"""What pages tell of an agent's rows: how they were isolated and verified, and how they do beside megatron_search."""

from __future__ import annotations

import numpy as np

from lts_bench.report.cells import Cells
from lts_bench.report.leaderboard import Board, Entry
from lts_bench.results.checks import L0
from lts_bench.results.schema import Row

RIVAL = "megatron_search"
OVER_RIVAL = f"÷\u00a0{RIVAL}"


def isolation(cells: Cells) -> list[str]:
    """Return how the agent's cells were isolated."""
    return sorted({row.isolation for row in cells.values()})


def level(board: Board, entry: Entry, cells: Cells) -> list[str]:
    """Return the recorded verification level, else L0 where all rows are there and well-formed."""
    if recorded := board.levels.get(entry.agent):
        return [recorded]
    well_formed = not any(any(check(row)) for row in cells.values() for check in L0.values())
    return ["L0"] if well_formed and not entry.missing else []


def rival(board: Board) -> Cells:
    """Return the cells of megatron_search, none where it is not on the board."""
    found = [cells for (_, agent), cells in board.cells.items() if agent.split("@")[0] == RIVAL]
    return found[-1] if found else {}


def over_rival(board: Board, cells: Cells, task: str) -> float | None:
    """Return the agent's mean score on a task ÷ that of megatron_search; None where either has no score above 0."""
    mine, theirs = mean_score(board, cells, task), mean_score(board, rival(board), task)
    return mine / theirs if mine is not None and theirs else None


def mean_score(board: Board, cells: Cells, task: str) -> float | None:
    """Return the mean score over the seeds of a task; None where a cell is missing."""
    found = [cells[task, seed].score for seed in board.grid.seeds if (task, seed) in cells]
    return float(np.mean(found)) if len(found) == len(board.grid.seeds) else None


def runs_of(board: Board, cells: Cells, task: str) -> list[Row]:
    """Return the rows of a task, by seed."""
    return [cells[task, seed] for seed in sorted(board.grid.seeds) if (task, seed) in cells]
