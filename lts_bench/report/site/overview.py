"""The first page, with all boards in one table, and the page of each suite's board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lts_bench.report.leaderboard import UNRANKED_TRACK, Board, Entry
from lts_bench.report.site.cells import Cell, Table, between, numeric
from lts_bench.report.site.facts import isolation, level
from lts_bench.report.site.paths import agent_page, figure_file, run_page, suite_page, task_page
from lts_bench.report.slices import slice_scores
from lts_bench.report.statistics import improvement
from lts_bench.report.tables import NONE

TITLES = (
    "Rank", "Agent", "Score", "95 %", "Suite", "Track", "Budget", "IQM", "Targets", "Solved", "Solved, 95 %",
    "First feasible", "Evaluations", "Badges",
)  # fmt: skip
NUMBERS = frozenset({0, 2, 3, 7, 8, 9, 10, 11, 12})
FILTERS = (4, 5, 6)
HEADS = TITLES.index("Agent")
FIGURES = {
    "scatter": "Throughput against SLO compliance; the dashed line is the Pareto front of the ranked agents.",
    "anytime_evaluations": "The best score so far over evaluations.",
    "anytime_seconds": "The best score so far over seconds, on the machine of the runs.",
    "targets": "The share of regret targets (50, 20, 10, 5, 2, 1, 0.1 %) reached, over evaluations.",
    "profiles": "Performance profiles: the share of cells that reach a score.",
    "tasks": "Mean scores, agents against tasks.",
    "slices": "Mean regret by model size, number of NPUs, topology and SLO.",
}
"""Figures of a board and what they show."""


def board_table(boards: Sequence[Board], caption: str, agent: str | None = None) -> Table:
    """Return leaderboards as one table, or what they say of one agent."""
    rows = [_board_row(board, entry) for board in boards for entry in board.entries if agent in (None, entry.agent)]
    return Table("board", caption, TITLES, rows, HEADS, FILTERS, NUMBERS)


def _board_row(board: Board, entry: Entry) -> list[Cell]:
    cells, name = board.cells[entry.track, entry.agent], board.grid.name
    unranked = "not ranked" if entry.track == UNRANKED_TRACK else NONE
    badges = (*isolation(cells), *level(board, entry, cells))
    return [
        Cell(unranked) if entry.rank is None else numeric(entry.rank, "d"),
        Cell(entry.agent, href=agent_page(entry.agent)),
        Cell(f"{entry.missing} missing") if entry.missing else numeric(entry.score),
        between(entry.score_interval),
        Cell(name, href=suite_page(name)),
        Cell(entry.track),
        Cell(board.grid.budget),
        numeric(entry.interquartile_mean),
        numeric(entry.targets_area),
        Cell(f"{entry.solved}/{entry.cells}", entry.solved_share),
        between(entry.solved_interval, ".2f"),
        numeric(entry.first_feasible, "g"),
        numeric(entry.evaluations, ".0f"),
        Cell(", ".join(badges), badges=badges),
    ]


def suite_context(board: Board, files: Sequence[str]) -> dict[str, Any]:
    """Return what the page of a suite shows; ``files`` are those of its board's directory."""
    name = board.grid.name
    figures = [(figure_file(name, f"{key}.svg"), text, figure_file(name, f"{key}.csv"))
               for key, text in FIGURES.items() if f"{key}.svg" in files]  # fmt: skip
    tables = [board_table([board], f"Agents on {name}"), tasks_table(board)]
    if board.scored:
        tables.append(improvement_table(board))
    if board.scored and board.grid.specs:
        tables.append(slices_table(board))
    return {"title": name, "board": board, "figures": figures, "tables_shown": tables}


def tasks_table(board: Board) -> Table:
    """Return mean scores per task and agent, with links to the runs."""
    name, agents = board.grid.name, [entry.agent for entry in board.entries]
    rows = [
        [Cell(task, href=task_page(name, task)), *(_task_cell(name, agent, task, scores[agent]) for agent in agents)]
        for task, scores in board.task_scores.items()
    ]
    numbers = frozenset(range(1, len(agents) + 1))
    return Table("tasks", "Mean score of each agent on each task", ("Task", *agents), rows, numbers=numbers)


def _task_cell(suite: str, agent: str, task: str, score: float | None) -> Cell:
    return numeric(score)._replace(href=run_page(suite, agent, task))


def improvement_table(board: Board) -> Table:
    """Return the probability that the agent of a row does better than that of a column."""
    agents = [entry.agent for entry in board.scored]
    rows = [
        [Cell(agent, href=agent_page(agent)), *(numeric(value, ".2f") for value in line)]
        for agent, line in zip(agents, improvement(board.scores()).tolist(), strict=True)
    ]
    caption = "P(row > column): how often an agent does better on the same task and machine; ties count one half"
    numbers = frozenset(range(1, len(agents) + 1))
    return Table("improvement", caption, ("Agent", *agents), rows, numbers=numbers)


def slices_table(board: Board) -> Table:
    """Return mean scores over groups of tasks, a column an agent."""
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for name, group, tasks, _, score in slice_scores(board):
        groups.setdefault((name, group, tasks), []).append(numeric(score))
    rows = [[Cell(name), Cell(group), numeric(tasks, "d"), *scores] for (name, group, tasks), scores in groups.items()]
    titles = ("By", "Group", "Tasks", *(entry.agent for entry in board.scored))
    numbers = frozenset(range(2, len(titles)))
    return Table("slices", "Mean scores by what tasks are like", titles, rows, 1, (0,), numbers)
