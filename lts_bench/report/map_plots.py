"""Figures of agents against tasks: the heat map of scores, and regret by groups of tasks."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lts_bench.report.leaderboard import Board
from lts_bench.report.slices import slice_scores
from lts_bench.report.style import line_style, named_agents, plain

WRITTEN = 400
"""Up to so many cells of a heat map have their number written in."""


def heat_map(board: Board) -> Figure:
    """Return mean scores, agents × tasks; its lightness rises with the score, so that it is read in grey as well."""
    agents, tasks = [entry.agent for entry in board.scored], sorted(board.grid.tasks)
    scores = board.scores().mean(axis=2)
    figure = Figure(figsize=(3 + 0.42 * len(tasks), 3.2 + 0.24 * len(agents)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(scores, vmin=0, vmax=1, cmap="cividis", aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(tasks)), map(plain, tasks), rotation=90, fontsize=7)
    axes.set_yticks(range(len(agents)), map(plain, agents), fontsize=7)
    axes.set_title(f"{plain(board.grid.name)}: mean score", fontsize=9)
    figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    if scores.size <= WRITTEN:
        for (row, column), score in np.ndenumerate(scores):
            ink = "black" if score > 0.5 else "white"
            axes.text(column, row, f"{score:.2f}", ha="center", va="center", fontsize=6, color=ink)
    return figure


def slices_figure(board: Board) -> Figure:
    """Return mean regret by model size, number of NPUs, topology and SLO."""
    lines = slice_scores(board)
    slices = list(dict.fromkeys(line[0] for line in lines))
    figure = Figure(figsize=(10, 7), layout="constrained")
    order = named_agents(board.scored)
    for place, name in enumerate(slices, start=1):
        axes = figure.add_subplot(2, 2, place)
        _draw_slice(axes, name, [line for line in lines if line[0] == name], order)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize="small")
    figure.suptitle(plain(board.grid.name))
    return figure


def _draw_slice(axes: Axes, name: str, lines: list[tuple[str, str, int, str, float]], order: list[str]) -> None:
    sizes = {group: tasks for _, group, tasks, _, _ in lines}
    agents = list(dict.fromkeys(line[3] for line in lines))
    scores = {(group, agent): score for _, group, _, agent, score in lines}
    for agent in [*(agent for agent in agents if agent not in order), *order]:
        regrets = [1 - scores[group, agent] for group in sizes]
        style = line_style(agent, named=agent in order) | {"markevery": 1}
        axes.plot(range(len(sizes)), regrets, **style)
    labels = [f"{group}\n({tasks})".replace(", ", ",\n") for group, tasks in sizes.items()]
    axes.set_xticks(range(len(sizes)), labels, fontsize=7)
    axes.margins(x=0.1)
    axes.set(title=f"{name} (number of tasks)", ylabel="mean regret")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
