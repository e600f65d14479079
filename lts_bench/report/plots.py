"""The figures of a board: SLO compliance against normalised throughput, curves, heat map and slices."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lts_bench.report.curve_plots import anytime_figure, profile_figure, targets_figure
from lts_bench.report.figure_tables import board_front
from lts_bench.report.leaderboard import Board, Entry
from lts_bench.report.map_plots import heat_map, slices_figure
from lts_bench.report.style import GREY, STYLE, agent_colour, agent_marker, named_agents, plain, saved

SOLVED = "share of cells with a feasible strategy"
REPLAYED = "mean attainment of replayed final strategies at the offered load"


def plots(board: Board) -> dict[str, bytes]:
    """Return all figures of a board, by file name; those of no agent's scores are left out, but for the scatter."""
    with mpl.rc_context(STYLE):
        figures = {"scatter": scatter_figure(board)}
        if board.scored:
            figures["anytime_evaluations"] = anytime_figure(board, "evaluation")
            figures["anytime_seconds"] = anytime_figure(board, "seconds")
            figures["targets"] = targets_figure(board)
            figures["profiles"] = profile_figure(board)
            figures["tasks"] = heat_map(board)
        if board.scored and board.grid.specs:
            figures["slices"] = slices_figure(board)
        files = {f"{name}.svg": saved(figure, "svg") for name, figure in figures.items()}
        return files | {"scatter.png": saved(figures["scatter"], "png")}


def scatter_figure(board: Board) -> Figure:
    """Return the scatter of a board."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    _draw(figure.add_subplot(), board)
    return figure


def _draw(axes: Axes, board: Board) -> None:
    named = named_agents(board.scored)
    for entry in sorted(board.scored, key=lambda entry: (-(entry.score or 0.0), entry.agent)):
        _draw_agent(axes, board, entry, named=entry.agent in named)
    front = board_front(board)
    if front:
        corners = zip(*_staircase(front), strict=True)
        axes.plot(*corners, color="black", linewidth=1, linestyle="--", zorder=1, label="Pareto front")
    if board.scored:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    axes.set(
        title=plain(board.grid.name),
        xlabel=f"SLO compliance: {REPLAYED if board.replayed else SOLVED}",
        ylabel="normalised throughput: goodput ÷ optimum",
        xlim=(-0.03, 1.03),
    )
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _staircase(front: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the border of all that some point of the front dominates."""
    rights = [0.0, *(x for x, _ in front)]
    tops = [*(y for _, y in front), 0.0]
    return [corner for i, y in enumerate(tops) for corner in ((rights[i], y), (rights[min(i + 1, len(front))], y))]


def _draw_agent(axes: Axes, board: Board, entry: Entry, *, named: bool) -> None:
    x, y = board.compliance(entry), entry.score or 0.0
    left, right = (x, x) if board.replayed else entry.solved_interval
    low, high = entry.score_interval or (y, y)
    axes.errorbar(
        x,
        y,
        # Rounding may put a bound on the wrong side of its point.
        xerr=[[max(0.0, x - left)], [max(0.0, right - x)]],
        yerr=[[max(0.0, y - low)], [max(0.0, high - y)]],
        fmt=agent_marker(entry.agent) if named else ".",
        color=agent_colour(entry.agent) if named else GREY,
        capsize=2,
        linewidth=1,
        zorder=2 if named else 0,
        label=plain(entry.agent) if named else None,
    )
