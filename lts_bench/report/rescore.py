"""``lts-bench rescore``: boards as they would be under the current cost model, from stored strategies alone.

A preview: agents might have found other strategies. Ranks count only after a re-run, unless all scores agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.certificates import certificate_of, drawn_task
from lts_bench.report.cells import version_key
from lts_bench.report.leaderboard import Board, Entry, make_board
from lts_bench.results.grids import Grid
from lts_bench.results.rescoring import rescored, same
from lts_bench.results.schema import Best, Optimum, Point, Row, Status, score_of, trace_digest
from lts_bench.results.store import Stored
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task


def rescore_document(stored: Stored) -> dict[str, Any]:
    """What ``lts-bench rescore`` answers: for each suite every agent's rank and score, stored and re-scored.

    Raises:
        InputError: there are no rows, or no suite holds them.
    """
    suites = []
    for grid in stored.suites():
        before = make_board(grid, stored.rows.values())
        if before.entries:
            after = make_board(grid, _rescored_rows(grid, stored.rows.values()))
            suites.append(_suite_document(grid, before, after, stored.rows.values()))
    return {"cost_model": COST_MODEL_VERSION, "suites": suites}


def _rescored_rows(grid: Grid, rows: Iterable[Row]) -> list[Row]:
    """Return every cell scored again, from the row of its latest version of the cost model."""
    specs = {spec.name: spec for spec in grid.specs}
    mine = sorted(grid.own_rows(rows), key=lambda row: version_key(row.provenance.cost_model))
    cells = {(row.task, row.seed, row.track, row.label): row for row in mine if row.task in specs}
    return [rescored_row(cells[place], specs[place[0]]) for place in sorted(cells)]


@lru_cache(maxsize=1)
def _task(spec: TaskSpec) -> Task:
    return Task(spec)


def rescored_row(row: Row, spec: TaskSpec) -> Row:
    """Return a row as the current cost model scores its final strategy, on the instance of its seed as it is now."""
    task = _task(spec)
    certificate = certificate_of(task, row.instance)
    optimum = Optimum(goodput_per_npu=certificate.optimum, certified=certificate.certified)
    best = _best(row, drawn_task(task, row.instance))
    status = Status.NO_SOLUTION if row.best is not None and best is None else row.status
    trace = () if best is None else (Point(row.trace[-1].evaluation, 0.0, best.goodput_per_npu, row.trace[-1].vector),)
    return msgspec.structs.replace(
        row,
        task_digest=task.digest,
        space_digest=task.space.digest,
        status=status,
        best=best,
        replay=None,
        optimum=optimum,
        regret=1 - score_of(status, best, optimum),
        trace=trace,
        trace_digest=trace_digest(trace),
        provenance=msgspec.structs.replace(row.provenance, cost_model=COST_MODEL_VERSION),
    )


def _best(row: Row, task: Task) -> Best | None:
    """Score the final strategy; None where it is no longer legal or feasible."""
    if row.best is None:
        return None
    try:
        found = rescored(task, row.best.strategy)
    except InputError:
        return None
    return found if found.slo_met and found.goodput_per_npu > 0 else None


def _suite_document(grid: Grid, before: Board, after: Board, rows: Iterable[Row]) -> dict[str, Any]:
    stored = {(entry.track, entry.agent): entry for entry in before.entries}
    agents = [_agent(stored.get((entry.track, entry.agent)), entry) for entry in after.entries]
    versions = sorted({row.provenance.cost_model for row in grid.rows(rows)})
    agree = all(_same(each["stored_score"], each["score"]) for each in agents)
    return {"suite": grid.name, "stored_versions": versions, "agree": agree, "agents": agents}


def _same(stored: float | None, found: float | None) -> bool:
    return stored is not None and found is not None and same(stored, found)


def _agent(before: Entry | None, after: Entry) -> dict[str, Any]:
    return {
        "track": after.track,
        "agent": after.agent,
        "stored_rank": before.rank if before else None,
        "rank": after.rank,
        "stored_score": before.score if before else None,
        "score": after.score,
    }


def rescore_line(suite: Mapping[str, Any]) -> str:
    """Return what to think of a suite's document, in a line."""
    versions = ", ".join(suite["stored_versions"])
    verdict = "all scores agree" if suite["agree"] else "a preview: ranks count after a re-run"
    return f"{suite['suite']}: stored under version {versions}, scored under {COST_MODEL_VERSION}: {verdict}"
