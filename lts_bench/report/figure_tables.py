"""The data behind figures, as CSV."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lts_bench.report.curves import Curve, anytime, profiles, reached_targets
from lts_bench.report.leaderboard import Board
from lts_bench.report.slices import slice_scores
from lts_bench.report.statistics import improvement, pareto_front
from lts_bench.report.tables import csv_text, number


def scatter_csv(board: Board) -> str:
    """Return the points of the scatter: x the SLO compliance, y the score, and whether one lies on the front."""
    columns = ("track", "agent", "compliance", "solved_low", "solved_high", "score", "score_low", "score_high", "front")
    front = set(board_front(board))
    lines = []
    for entry in board.scored:
        point = (board.compliance(entry), entry.score or 0.0)
        numbers = (point[0], *entry.solved_interval, entry.score, *(entry.score_interval or ()))
        lines.append([entry.track, entry.agent, *map(number, numbers), int(point in front)])
    return csv_text(columns, lines)


def board_front(board: Board) -> list[tuple[float, float]]:
    """Return the Pareto front of compliance and score over the ranked agents."""
    return pareto_front([(board.compliance(each), each.score or 0.0) for each in board.scored if each.rank is not None])


def improvement_csv(board: Board) -> str:
    """Return P(agent > other) for each pair of agents, on the same task and machine."""
    agents = [entry.agent for entry in board.scored]
    pairs = zip(agents, improvement(board.scores()), strict=True)
    lines = [[mine, other, number(value)] for mine, row in pairs for other, value in zip(agents, row, strict=True)]
    return csv_text(("agent", "other", "probability"), lines)


def slices_csv(board: Board) -> str:
    """Return the mean score of each agent over the tasks of each group; regret is what lacks to 1."""
    lines = [[*line[:4], number(line[4])] for line in slice_scores(board)]
    return csv_text(("slice", "group", "tasks", "agent", "score"), lines)


def curve_csv(x: str, y: str, curve: Curve) -> str:
    """Return a curve with a line an agent and place; places at which the value stays the same are left out."""
    bands = curve.low.size > 0
    columns = (y, f"{y}_low", f"{y}_high") if bands else (y,)
    values = np.stack([curve.y, curve.low, curve.high] if bands else [curve.y], axis=-1)
    lines = []
    for agent, rows in zip(curve.agents, values, strict=True):
        changes = [True, *(rows[1:] != rows[:-1]).any(axis=1)]
        moved = zip(curve.x[changes], rows[changes], strict=True)
        lines += [[agent, f"{place:g}", *map(number, row)] for place, row in moved]
    return csv_text(("agent", x, *columns), lines)


FIGURE_TABLES: dict[str, Callable[[Board], str]] = {
    "scatter.csv": scatter_csv,
    "anytime_evaluations.csv": lambda board: curve_csv("evaluations", "score", anytime(board, "evaluation")),
    "anytime_seconds.csv": lambda board: curve_csv("seconds", "score", anytime(board, "seconds")),
    "targets.csv": lambda board: curve_csv("evaluations", "reached", reached_targets(board)),
    "profiles.csv": lambda board: curve_csv("threshold", "share", profiles(board)),
    "improvement.csv": improvement_csv,
    "slices.csv": slices_csv,
}
