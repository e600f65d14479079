"""From rows to a leaderboard: score per cell, missing cells, intervals and ranks per track."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from lts_bench.report.statistics import (
    Floats,
    board_score,
    bootstrap,
    interquartile_mean,
    interval,
    ranks,
    wilson,
)
from lts_bench.results.grids import Grid
from lts_bench.results.schema import FAILED, Row
from lts_bench.specs.failure import InputError

TRACKS = ("search", "heuristic", "pretrained", "model_based", "oracle")
UNRANKED_TRACK = "oracle"

Cells = dict[tuple[str, int], Row]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the leaderboard; ``score`` and what follows from it is None where cells are missing.

    ``attainment`` and ``replayed_goodput``, a share of the optimum, are means over cells, unsolved ones 0; None where
    cells are missing or have not been replayed.
    """

    agent: str
    track: str
    rank: int | None = None
    score: float | None = None
    score_interval: tuple[float, float] | None = None
    interquartile_mean: float | None = None
    solved: int
    cells: int
    solved_interval: tuple[float, float]
    first_feasible: float | None
    evaluations: float
    missing: int
    statuses: dict[str, int]
    attainment: float | None = None
    replayed_goodput: float | None = None


class Board(msgspec.Struct, frozen=True):
    """A suite's leaderboard.

    Attributes:
        entries: in the order of the table.
        task_scores: mean scores per task and agent.
        stale: rows of older cost models, which are left out.
        bounds: cells whose score is measured against a bound, as the optimum is not certified.
    """

    grid: Grid
    entries: tuple[Entry, ...]
    task_scores: dict[str, dict[str, float | None]]
    stale: int
    bounds: int

    @property
    def missing(self) -> int:
        """The number of missing cells."""
        return sum(entry.missing for entry in self.entries)


def make_board(grid: Grid, rows: Iterable[Row]) -> Board:
    """Build the board of a suite from the rows that belong to it."""
    mine = grid.rows(rows)
    latest = max((row.provenance.cost_model for row in mine), key=version_key, default="")
    current = [row for row in mine if row.provenance.cost_model == latest]
    agents = _by_agent(current)
    entries = [entry for track in TRACKS for entry in _track_entries(grid, track, agents)]
    tasks = {task: {agent: _task_score(grid, task, cells) for (_, agent), cells in agents.items()}
             for task in sorted(grid.tasks)}  # fmt: skip
    bounds = sum(row.optimum is not None and not row.optimum.certified for row in current)
    return Board(grid, tuple(entries), tasks, stale=len(mine) - len(current), bounds=bounds)


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Return what orders versions of the cost model."""
    return tuple((int(part) if part.isdigit() else -1, part) for part in version.split("."))


def _by_agent(rows: Iterable[Row]) -> dict[tuple[str, str], Cells]:
    agents: dict[tuple[str, str], Cells] = defaultdict(dict)
    for row in rows:
        cells = agents[row.track, row.label]
        other = cells.setdefault((row.task, row.seed), row)
        if other.run_id != row.run_id:
            rule = f"the same agent, task and seed as {other.run_id}, though not the same run"
            raise InputError(rule, source=row.run_id, field="agent", value=row.label)
    return dict(sorted(agents.items()))


def _track_entries(grid: Grid, track: str, agents: dict[tuple[str, str], Cells]) -> list[Entry]:
    mine = {agent: cells for (its_track, agent), cells in agents.items() if its_track == track}
    entries = [_entry(grid, track, agent, cells) for agent, cells in mine.items()]
    complete = [entry for entry in entries if not entry.missing]
    rest = [entry for entry in entries if entry.missing]
    scores = np.array([_matrix(grid, mine[entry.agent]) for entry in complete])
    scored = _scored(complete, scores, ranked=track != UNRANKED_TRACK) if complete else []
    return scored + sorted(rest, key=lambda entry: entry.agent)


def _matrix(grid: Grid, cells: Cells) -> list[list[float]]:
    return [[cells[task, seed].score for seed in sorted(grid.seeds)] for task in sorted(grid.tasks)]


def _scored(entries: Sequence[Entry], scores: Floats, *, ranked: bool) -> list[Entry]:
    samples = bootstrap(scores)
    placed = ranks(samples) if ranked else [None] * len(entries)
    full = [
        msgspec.structs.replace(
            entry,
            rank=rank,
            score=float(score),
            score_interval=interval(sample),
            interquartile_mean=interquartile_mean(cells),
        )
        for entry, rank, score, sample, cells in zip(entries, placed, board_score(scores), samples, scores, strict=True)
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
