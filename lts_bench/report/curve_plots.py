"""Figures with a line an agent: scores over evaluations and seconds, reached targets, performance profiles."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lts_bench.report.cells import Axis
from lts_bench.report.curves import Curve, anytime, profiles, reached_targets
from lts_bench.report.leaderboard import Board
from lts_bench.report.style import agent_colour, line_style, named_agents, plain

BAND = 0.15
"""Opacity of an interval."""


def anytime_figure(board: Board, axis: Axis) -> Figure:
    """Return the best score so far over evaluations, or seconds up to the longest run, with bands."""
    curve = anytime(board, axis)
    figure, axes = _figure(board, curve)
    unit = "evaluations" if axis == "evaluation" else "seconds"
    axes.set(xscale="log", xlabel=unit, ylabel="best score so far, mean and 95 % interval over seeds")
    axes.set_ylim(bottom=0)
    if axis == "seconds":
        longest = max(row.cost.wall_s for cells in board.cells.values() for row in cells.values())
        axes.set_xlim(curve.x[0], max(longest, 10 * curve.x[0]))
    return figure


def targets_figure(board: Board) -> Figure:
    """Return the ECDF of first evaluations over all cells and regret targets."""
    figure, axes = _figure(board, reached_targets(board))
    axes.set(xscale="log", xlabel="evaluations", ylabel="share of (cell, regret target) reached", ylim=(-0.02, 1.02))
    return figure


def profile_figure(board: Board) -> Figure:
    """Return performance profiles."""
    figure, axes = _figure(board, profiles(board))
    axes.set(xlabel="score: goodput ÷ optimum", ylabel="share of cells that reach the score", ylim=(-0.02, 1.02))
    return figure


def _figure(board: Board, curve: Curve) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    order = named_agents(board.scored)
    for agent in [*(agent for agent in curve.agents if agent not in order), *order]:
        _draw(axes, curve, agent, named=agent in order)
    axes.set_title(plain(board.grid.name))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    axes.grid(alpha=0.3)
    return figure, axes


def _draw(axes: Axes, curve: Curve, agent: str, *, named: bool) -> None:
    at = curve.agents.index(agent)
    axes.plot(curve.x, curve.y[at], drawstyle="steps-post", **line_style(agent, named=named))
    if named and curve.low.size:
        low, high = curve.low[at], curve.high[at]
        axes.fill_between(curve.x, low, high, step="post", alpha=BAND, linewidth=0, color=agent_colour(agent))
