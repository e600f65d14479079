"""A board's directory: tables and plots of one suite, written or compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lts_bench.report.figure_tables import FIGURE_TABLES
from lts_bench.report.leaderboard import Board, make_board
from lts_bench.report.tables import leaderboard_csv, leaderboard_markdown, summary_markdown, tasks_csv
from lts_bench.results.levels import Level
from lts_bench.results.store import Stored, write_atomically
from lts_bench.specs.failure import InputError, did_you_mean


def boards(stored: Stored, recorded: Sequence[Level] = (), names: Sequence[str] | None = None) -> list[Board]:
    """Return a board per suite that the rows belong to, with the levels that are recorded of these rows.

    Args:
        stored: the rows.
        recorded: levels of these or other rows.
        names: of the suites; None for all that there are.

    Raises:
        InputError: there are no rows, no suite holds them, none has an optimum, or there is no such suite.
    """
    grids = {grid.name: grid for grid in stored.suites()}
    for name in names or ():
        if name not in grids:
            raise InputError(f"no results of it{did_you_mean(name, grids)}", field="suite", value=name, legal=[*grids])
    chosen = [grid for name, grid in grids.items() if names is None or name in names]
    found = [make_board(grid, stored.rows.values(), recorded) for grid in chosen]
    return [board for board in found if board.entries]


def board_texts(board: Board) -> dict[str, bytes]:
    """Return the files of a board that are compared byte by byte."""
    texts = {
        "leaderboard.md": leaderboard_markdown(board),
        "leaderboard.csv": leaderboard_csv(board),
        "summary.md": summary_markdown(board),
        "tasks.csv": tasks_csv(board),
        **{name: table(board) for name, table in FIGURE_TABLES.items()},
    }
    return {name: text.encode() for name, text in texts.items()}


def board_document(board: Board) -> dict[str, Any]:
    """Return a board as plain data."""
    return {
        "suite": board.grid.name,
        "budget": board.grid.budget,
        "leaderboard": msgspec.to_builtins(board.entries),
        "tasks": board.task_scores,
        "missing": board.missing,
        "bounds": board.bounds,
    }


def board_files(board: Board) -> dict[str, bytes]:
    """Return tables and plots of a board by name."""
    from lts_bench.report.plots import plots

    return board_texts(board) | plots(board)


def write_board(board: Board, directory: Path) -> dict[str, bytes]:
    """Write tables and plots of a board to ``directory/<suite>/``, and return them."""
    files = board_files(board)
    for name, data in files.items():
        write_atomically(directory / board.grid.name / name, data)
    return files


def differences(board: Board, directory: Path) -> list[str]:
    """Return a line for each file of ``directory/<suite>/`` that is missing or differs; plots are not compared."""
    lines: list[str] = []
    for name, data in board_texts(board).items():
        path = directory / board.grid.name / name
        if not path.is_file():
            lines.append(f"{path}: is missing")
        elif path.read_bytes() != data:
            lines.append(f"{path}:{_first_difference(path.read_bytes(), data)}: differs from what the results give")
    return lines


def _first_difference(before: bytes, after: bytes) -> int:
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    same = next((i for i, (old, new) in enumerate(pairs) if old != new), None)
    return 1 + (same if same is not None else min(len(before.splitlines()), len(after.splitlines())))
