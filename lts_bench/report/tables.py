"""Tables as text: Markdown for people, CSV for programs, the same input always the same bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from lts_bench.report.leaderboard import TRACKS, UNRANKED_TRACK, Board, Entry

LEADERBOARD_COLUMNS = (
    "track", "rank", "agent", "score", "score_low", "score_high", "interquartile_mean", "targets_area", "solved",
    "cells", "solved_share", "solved_low", "solved_high", "first_feasible_median", "evaluations_mean", "missing",
    "statuses", "attainment", "replayed_goodput",
)  # fmt: skip
TITLES = ("Rank", "Agent", "Score", "95 %", "IQM", "Solved", "95 %", "First feasible", "Evaluations", "Cells")
PAGE_TITLES = (*TITLES, "Targets", "Attained", "Replayed")
"""Of the page, which has more room than a terminal."""
SUMMARY_TITLES = ("Track", "Rank", "Agent", "Score", "95 %", "Solved")
FORMULA_STARTS = ("=", "+", "-", "@")
NONE = "–"


def number(value: float | None) -> str:
    """Return a number with six decimals, nothing for None."""
    return "" if value is None else f"{value:.6f}"


def csv_text(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return CSV in which no text breaks a line or can be read as a formula by a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_harmless(cell) for cell in line] for line in lines)
    return file.getvalue()


def _harmless(cell: object) -> str:
    text = "" if cell is None else " ".join(str(cell).split())
    is_text = isinstance(cell, str) and text.startswith(FORMULA_STARTS)
    return f"'{text}" if is_text else text


def markdown_text(value: object) -> str:
    """Return text for a cell of a Markdown table: no column break, no line break, no HTML."""
    text = " ".join(str(value).split())
    for mark, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\\", "\\\\"), ("|", "\\|"), ("`", "\\`")):
        text = text.replace(mark, escape)
    return text


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the cells are Markdown already."""
    rows = [header, ["---"] * len(header), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def leaderboard_csv(board: Board) -> str:
    """Return the leaderboard with a line per agent, tracks one after the other."""
    return csv_text(LEADERBOARD_COLUMNS, map(_csv_line, board.entries))


def _csv_line(entry: Entry) -> list[object]:
    low, high = entry.score_interval or (None, None)
    return [
        entry.track, entry.rank, entry.agent, number(entry.score), number(low), number(high),
        number(entry.interquartile_mean), number(entry.targets_area), entry.solved, entry.cells,
        number(entry.solved_share), *map(number, entry.solved_interval), number(entry.first_feasible),
        number(entry.evaluations), entry.missing, _statuses(entry), number(entry.attainment),
        number(entry.replayed_goodput),
    ]  # fmt: skip


def _statuses(entry: Entry) -> str:
    missing = {"missing": entry.missing} if entry.missing else {}
    return ", ".join(f"{count} {status}" for status, count in (entry.statuses | missing).items())


def leaderboard_cells(entry: Entry) -> list[str]:
    """Return what the leaderboard shows of an agent, under TITLES, as plain text."""
    low, high = entry.solved_interval
    return [
        NONE if entry.rank is None else str(entry.rank),
        entry.agent,
        NONE if entry.score is None else f"{entry.score:.4f}",
        NONE if entry.score_interval is None else "{:.4f} to {:.4f}".format(*entry.score_interval),
        NONE if entry.interquartile_mean is None else f"{entry.interquartile_mean:.4f}",
        f"{entry.solved}/{entry.cells}",
        f"{low:.2f} to {high:.2f}",
        NONE if entry.first_feasible is None else f"{entry.first_feasible:g}",
        f"{entry.evaluations:.0f}",
        _statuses(entry),
    ]


def leaderboard_markdown(board: Board) -> str:
    """Return the page of a suite's board: a table per track, what the columns mean, the scores per task."""
    parts = [f"# {markdown_text(board.grid.name)}\n", _explanation(board)]
    for track in TRACKS:
        lines = [_page_line(entry) for entry in board.entries if entry.track == track]
        if lines:
            unranked = " (not ranked)" if track == UNRANKED_TRACK else ""
            parts.append(f"## {track}{unranked}\n\n{markdown_table(PAGE_TITLES, lines)}")
    if board.bounds:
        parts.append(f"{board.bounds} cells are measured against a bound: their optimum is not certified.\n")
    if board.entries:
        parts.append(f"## Score per task\n\n{_task_table(board)}")
    return "\n".join(parts)


def _page_line(entry: Entry) -> list[str]:
    figures = (entry.targets_area, entry.attainment, entry.replayed_goodput)
    further = [NONE if figure is None else f"{figure:.4f}" for figure in figures]
    return [markdown_text(cell) for cell in (*leaderboard_cells(entry), *further)]


def summary_markdown(board: Board) -> str:
    """Return the leaderboard as one small table for other pages."""
    lines = []
    for entry in board.entries:
        rank, agent, score, interval, _, solved, *_ = map(markdown_text, leaderboard_cells(entry))
        lines.append([entry.track, rank, agent, score, interval, solved])
    return markdown_table(SUMMARY_TITLES, lines)


def _explanation(board: Board) -> str:
    grid = board.grid
    lines = [
        f"{len(grid.tasks)} tasks, {len(grid.seeds)} seeds, budget {grid.budget}.",
        "Seed i runs on instance i of a task: a machine whose constants are drawn within their errors.",
        "Score: best goodput found ÷ the certified optimum of the instance, a failed cell 0; mean over tasks of the",
        "mean over seeds. Intervals: paired bootstrap over seeds; Wilson for solved cells.",
        "Targets: area under the share of regret targets (50, 20, 10, 5, 2, 1, 0.1 %) reached, over log evaluations.",
        "Attained: share of requests within the SLOs, the final strategy replayed at 0.9 of its predicted rate.",
        "Replayed: goodput at the highest replayed rate that attains the SLOs ÷ the optimum's. An unsolved cell is 0.",
        "Agents whose paired interval includes 0 share a rank; an agent with missing cells is not ranked.",
    ]
    if board.missing:
        lines.append(f"**{board.missing} cells are missing.**")
    if board.stale:
        lines.append(f"{board.stale} rows of older cost models are left out.")
    return "\n".join(lines) + "\n"


def task_agents(board: Board) -> list[str]:
    """Return the agents in the order of the leaderboard."""
    return [entry.agent for entry in board.entries]


def _task_table(board: Board) -> str:
    agents = task_agents(board)
    lines = [
        [markdown_text(task), *(NONE if (s := scores[agent]) is None else f"{s:.4f}" for agent in agents)]
        for task, scores in board.task_scores.items()
    ]
    return markdown_table(["Task", *map(markdown_text, agents)], lines)


def tasks_csv(board: Board) -> str:
    """Return the mean score per task and agent."""
    lines = [
        [task, agent, number(scores[agent])]
        for task, scores in board.task_scores.items()
        for agent in task_agents(board)
    ]
    return csv_text(("task", "agent", "score"), lines)
