"""From rows to a leaderboard: score per cell, missing cells, intervals and ranks per track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from lts_bench.budget import parse_budget
from lts_bench.report.cells import Cells, by_agent, current_rows, first_evaluations, score_matrix
from lts_bench.report.statistics import (
    Floats,
    board_score,
    bootstrap,
    interquartile_mean,
    interval,
    log_area,
    ranks,
    wilson,
)
from lts_bench.results.grids import Grid
from lts_bench.results.levels import Level, labelled, rows_digest
from lts_bench.results.schema import FAILED, Row

TRACKS = ("search", "heuristic", "pretrained", "model_based", "oracle")
UNRANKED_TRACK = "oracle"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the leaderboard; ``score`` and what follows from it is None where cells are missing.

    Attributes:
        targets_area: area under the ECDF of the regret targets over log evaluations.
        solved: cells with a feasible strategy.
        first_feasible: median evaluation that found the first one.
        attainment: mean over cells, an unsolved one 0; None where cells are missing or were not replayed.
        replayed_goodput: the same of the replayed goodput as a share of the optimum.
    """

    agent: str
    track: str
    rank: int | None = None
    score: float | None = None
    score_interval: tuple[float, float] | None = None
    interquartile_mean: float | None = None
    targets_area: float | None = None
    solved: int
    cells: int
    solved_interval: tuple[float, float]
    first_feasible: float | None
    evaluations: float
    missing: int
    statuses: dict[str, int]
    attainment: float | None = None
    replayed_goodput: float | None = None

    @property
    def solved_share(self) -> float:
        """The share of cells with a feasible strategy."""
        return self.solved / self.cells


class Board(msgspec.Struct, frozen=True):
    """A suite's leaderboard.

    Attributes:
        entries: in the order of the table.
        cells: the rows of each (track, agent), those of older cost models left out.
        task_scores: mean scores per task and agent.
        stale: rows of older cost models, which are left out.
        bounds: cells whose score is measured against a bound, as the optimum is not certified.
        levels: verification levels that are recorded of these very rows, by agent.
    """

    grid: Grid
    entries: tuple[Entry, ...]
    cells: dict[tuple[str, str], Cells]
    task_scores: dict[str, dict[str, float | None]]
    stale: int
    bounds: int
    levels: Mapping[str, str]

    @property
    def missing(self) -> int:
        """The number of missing cells."""
        return sum(entry.missing for entry in self.entries)

    @property
    def scored(self) -> list[Entry]:
        """The agents without missing cells."""
        return [entry for entry in self.entries if entry.score is not None]

    @property
    def replayed(self) -> bool:
        """Whether the final strategies of all scored agents were replayed."""
        return all(entry.attainment is not None for entry in self.scored)

    def compliance(self, entry: Entry) -> float:
        """Return how well an agent meets the SLOs: the attainment where all were replayed, else the solved share."""
        attained = entry.attainment if self.replayed else None
        return entry.solved_share if attained is None else attained

    def scores(self) -> Floats:
        """Return the scores of the agents without missing cells, ``(agents, tasks, seeds)``."""
        found = [score_matrix(self.grid, self.cells[entry.track, entry.agent]) for entry in self.scored]
        return np.array(found).reshape(-1, len(self.grid.tasks), len(self.grid.seeds))


def make_board(grid: Grid, rows: Iterable[Row], recorded: Iterable[Level] = ()) -> Board:
    """Build the board of a suite from the rows that belong to it, and the levels that are recorded of agents' rows."""
    mine = grid.own_rows(rows)
    current = current_rows(mine)
    agents = by_agent(current)
    entries = [entry for track in TRACKS for entry in _track_entries(grid, track, agents)]
    tasks = {task: {agent: _task_score(grid, task, cells) for (_, agent), cells in agents.items()}
             for task in sorted(grid.tasks)}  # fmt: skip
    bounds = sum(row.optimum is not None and not row.optimum.certified for row in current)
    told = [each for each in recorded if each.suite == grid.name]
    levels = {each.agent: each.level for each in told if each.rows == rows_digest(labelled(mine, each.agent))}
    return Board(grid, tuple(entries), agents, tasks, len(mine) - len(current), bounds, levels)


def _track_entries(grid: Grid, track: str, agents: dict[tuple[str, str], Cells]) -> list[Entry]:
    mine = {agent: cells for (its_track, agent), cells in agents.items() if its_track == track}
    entries = [_entry(grid, track, agent, cells) for agent, cells in mine.items()]
    complete = [entry for entry in entries if not entry.missing]
    rest = [entry for entry in entries if entry.missing]
    scored = _scored(grid, [(entry, mine[entry.agent]) for entry in complete], ranked=track != UNRANKED_TRACK)
    return scored + sorted(rest, key=lambda entry: entry.agent)


def _scored(grid: Grid, complete: Sequence[tuple[Entry, Cells]], *, ranked: bool) -> list[Entry]:
    if not complete:
        return []
    scores = np.array([score_matrix(grid, cells) for _, cells in complete])
    samples = bootstrap(scores)
    placed = ranks(samples) if ranked else [None] * len(complete)
    limit = parse_budget(grid.budget).evaluations
    full = [
        msgspec.structs.replace(
            entry,
            rank=rank,
            score=float(score),
            score_interval=interval(sample),
            interquartile_mean=interquartile_mean(mine),
            targets_area=log_area(first_evaluations(cells), limit),
        )
        for (entry, cells), rank, score, sample, mine in zip(
            complete, placed, board_score(scores), samples, scores, strict=True
        )
    ]
    return sorted(full, key=lambda entry: (entry.rank or 0, -round(entry.score or 0.0, 12), entry.agent))


def _entry(grid: Grid, track: str, agent: str, cells: Cells) -> Entry:
    total = len(grid.tasks) * len(grid.seeds)
    rows = list(cells.values())
    solved = sum(map(_is_solved, rows))
    complete = len(rows) == total
    firsts = [row.first_feasible if row.first_feasible is not None else np.inf for row in rows]
    first = float(np.median(firsts))
    return Entry(
        agent=agent,
        track=track,
        solved=solved,
        cells=total,
        solved_interval=wilson(solved, total),
        first_feasible=first if np.isfinite(first) else None,
        evaluations=float(np.mean([row.cost.evaluations for row in rows])),
        missing=total - len(rows),
        statuses=dict(sorted(Counter(str(row.status) for row in rows).items())),
        attainment=_mean_or_none(map(_attainment, rows)) if complete else None,
        replayed_goodput=_mean_or_none(map(_replayed_goodput, rows)) if complete else None,
    )


def _is_solved(row: Row) -> bool:
    return row.best is not None and row.status not in FAILED


def _attainment(row: Row) -> float | None:
    if not _is_solved(row):
        return 0.0
    return None if row.replay is None else row.replay.attainment


def _replayed_goodput(row: Row) -> float | None:
    if not _is_solved(row):
        return 0.0
    goodput = None if row.replay is None else row.replay.goodput_per_npu
    return None if goodput is None or row.optimum is None else goodput / row.optimum.goodput_per_npu


def _mean_or_none(values: Iterable[float | None]) -> float | None:
    found = list(values)
    there = [value for value in found if value is not None]
    return float(np.mean(there)) if len(there) == len(found) else None


def _task_score(grid: Grid, task: str, cells: Cells) -> float | None:
    found = [cells[task, seed].score for seed in grid.seeds if (task, seed) in cells]
    return float(np.mean(found)) if len(found) == len(grid.seeds) else None
