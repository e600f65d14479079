"""Curves of a board: the best score so far over evaluations and seconds, reached targets, performance profiles."""

from __future__ import annotations

import msgspec
import numpy as np

from lts_bench.budget import parse_budget
from lts_bench.report.cells import Axis, Cells, first_evaluations, scores_at
from lts_bench.report.leaderboard import Board
from lts_bench.report.statistics import CONFIDENCE, Floats, board_score, bootstrap, profile
from lts_bench.results.grids import Grid

RESAMPLES = 1_000
"""Of the bands; those of the leaderboard have ten times as many."""
PLACES = 40
"""Steps of a curve over evaluations."""
FIRST_SECOND, PLACES_PER_DECADE = 0.01, 10
"""Where curves over seconds begin, and how fine they are."""
THRESHOLDS = np.linspace(0.0, 1.0, 101)
"""Scores of a performance profile."""


class Curve(msgspec.Struct, frozen=True, eq=False):
    """A line of a figure for each agent.

    Attributes:
        agents: in the order of the leaderboard.
        x: (places).
        y: (agents, places).
        low: of the bands, as ``y``; empty where a curve has none.
        high: as ``low``.
    """

    agents: tuple[str, ...]
    x: Floats
    y: Floats
    low: Floats
    high: Floats


def places(budget: str, axis: Axis) -> Floats:
    """Return where curves are drawn: it depends on the budget alone, on no results."""
    limits = parse_budget(budget)
    if axis == "evaluation":
        return np.unique(np.round(np.geomspace(1, limits.evaluations, PLACES + 1)))
    decades = np.log10(limits.seconds / FIRST_SECOND)
    return np.geomspace(FIRST_SECOND, limits.seconds, round(decades * PLACES_PER_DECADE) + 1)


def anytime(board: Board, axis: Axis) -> Curve:
    """Return the mean over tasks of the mean over seeds of the best score so far, with bootstrap bands over seeds."""
    x, entries = places(board.grid.budget, axis), board.scored
    so_far = [_scores_so_far(board.grid, board.cells[entry.track, entry.agent], x, axis) for entry in entries]
    shape = (len(entries), len(x))
    # A place of an agent's curve is drawn again as an agent of its own would be.
    scores = np.array(so_far).reshape(-1, len(board.grid.tasks), len(board.grid.seeds))
    samples = bootstrap(scores, RESAMPLES)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=1)
    return Curve(_agents(board), x, board_score(scores).reshape(shape), low.reshape(shape), high.reshape(shape))


def _scores_so_far(grid: Grid, cells: Cells, x: Floats, axis: Axis) -> Floats:
    """Return the best scores so far, ``(places, tasks, seeds)``."""
    found = [[scores_at(cells[task, seed], x, axis) for seed in sorted(grid.seeds)] for task in sorted(grid.tasks)]
    return np.moveaxis(np.array(found), 2, 0)


def reached_targets(board: Board) -> Curve:
    """Return the ECDF of first evaluations: the share of (cell, regret target) that is reached so far."""
    x = places(board.grid.budget, "evaluation")
    firsts = [np.sort(first_evaluations(board.cells[entry.track, entry.agent])) for entry in board.scored]
    shares = [np.searchsorted(mine, x, side="right") / len(mine) for mine in firsts]
    return _plain(board, x, np.array(shares))


def profiles(board: Board) -> Curve:
    """Return performance profiles: the share of cells whose score reaches each threshold."""
    return _plain(board, THRESHOLDS, profile(board.scores(), THRESHOLDS))


def _plain(board: Board, x: Floats, y: Floats) -> Curve:
    return Curve(_agents(board), x, y.reshape(-1, len(x)), np.zeros(0), np.zeros(0))


def _agents(board: Board) -> tuple[str, ...]:
    return tuple(entry.agent for entry in board.scored)
