"""The page of an agent's runs of a task: every seed, and the best one in full beside its rival and the optimum."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

import matplotlib as mpl

from lts_bench.assess import assess, assessment_document
from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.certificates import certificate_of, drawn_task
from lts_bench.quantities import quantity
from lts_bench.report.leaderboard import Board
from lts_bench.report.site.cells import Cell, Table, numeric
from lts_bench.report.site.facts import OVER_RIVAL, RIVAL, rival, runs_of
from lts_bench.report.site.strategies import AnyStrategy, comparison, memory_table, parts, time_table
from lts_bench.report.strategy_drawing import strategy_figure
from lts_bench.report.style import STYLE, saved
from lts_bench.report.tables import NONE
from lts_bench.results.schema import Row
from lts_bench.space.disaggregated import legal_any
from lts_bench.space.strategy import Degrees
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task

SEED_TITLES = (
    "Seed", "Status", "Score", "Goodput, tokens/s and NPU", OVER_RIVAL, "TTFT, ms", "TPOT, ms", "Memory of a device",
    "Evaluations", "First feasible", "Seconds", "Isolation", "Run id",
)  # fmt: skip
INNERMOST = re.compile(r"\[[^\[\]{}]*\]")
DRAWING_STYLE = STYLE | {"svg.fonttype": "none"}
"""Text as text: a drawing is a third as large."""


class Run(NamedTuple):
    """An agent's runs of a task."""

    board: Board
    track: str
    agent: str
    task: str

    def rows(self) -> list[Row]:
        """Return them by seed."""
        return runs_of(self.board, self.board.cells[self.track, self.agent], self.task)

    def best(self) -> Row | None:
        """Return the one of the highest score, the first of several; None where all failed."""
        solved = [row for row in self.rows() if row.score > 0]
        return max(solved, key=lambda row: row.score, default=None)


class Detail(NamedTuple):
    """What a page tells of one strategy.

    Attributes:
        drawings: SVG by pool.
        problem: why there is nothing else, None where there is.
    """

    tables: list[Table]
    drawings: dict[str, bytes]
    problem: str | None = None


def run_context(run: Run) -> dict[str, Any]:
    """Return what the page of runs shows, drawings apart."""
    best, rows = run.best(), run.rows()
    theirs = rival(run.board)
    documents = [(row.seed, _json(row.best.strategy)) for row in rows if row.best]
    return {
        "title": f"{run.agent} on {run.task}",
        "run": run,
        "best": best,
        "gain": _gain(best, theirs.get((run.task, best.seed))) if best else None,
        "rival": RIVAL,
        "seeds": _seeds_table(run, rows),
        "trace": _trace_table(best) if best else None,
        "documents": documents,
    }


def _json(strategy: dict[str, Any]) -> str:
    """Return a strategy as JSON with a line an operator."""
    return INNERMOST.sub(lambda found: " ".join(found[0].split()), json.dumps(strategy, indent=1))


def _gain(mine: Row, theirs: Row | None) -> float | None:
    """Return the goodput beside the rival's on the same machine, as a factor."""
    return mine.score / theirs.score if theirs is not None and theirs.score else None


def _seeds_table(run: Run, rows: list[Row]) -> Table:
    theirs = rival(run.board)
    lines = [_seed_row(row, _gain(row, theirs.get((row.task, row.seed)))) for row in rows]
    numbers = frozenset({0, 2, 3, 4, 5, 6, 7, 8, 9, 10})
    return Table("seeds", f"Runs of {run.agent} on {run.task}", SEED_TITLES, lines, numbers=numbers)


def _seed_row(row: Row, gain: float | None) -> list[Cell]:
    best = row.best
    return [
        numeric(row.seed, "d"),
        Cell(row.status if row.error is None else f"{row.status}: {row.error}"),
        numeric(row.score),
        numeric(best.goodput_per_npu if best else None, ",.1f"),
        numeric(gain, ".3f"),
        numeric(best.ttft_s * 1e3 if best else None, ".1f"),
        numeric(best.tpot_s * 1e3 if best else None, ".2f"),
        Cell(quantity("bytes", best.memory_bytes), best.memory_bytes) if best else Cell(NONE),
        numeric(row.cost.evaluations, "d"),
        numeric(row.first_feasible, "d"),
        numeric(row.cost.wall_s, ".2f"),
        Cell(row.isolation),
        Cell(row.run_id[:12]),
    ]


def _trace_table(row: Row) -> Table:
    assert row.optimum is not None
    lines = [
        [
            numeric(point.evaluation, "d"),
            numeric(point.seconds, ".3f"),
            numeric(point.goodput_per_npu / row.optimum.goodput_per_npu),
        ]
        for point in row.trace
    ]
    titles = ("Evaluation", "Second", "Score")
    return Table("trace", "Improvements", titles, lines, numbers=frozenset({0, 1, 2}), sortable=False)


@lru_cache(maxsize=1)
def _task(spec: TaskSpec) -> Task:
    return Task(spec)


def run_detail(run: Run, spec: TaskSpec | None) -> Detail:
    """Return drawings, comparison, memory and time of the best run's strategy, on the machine of its seed."""
    row = run.best()
    if row is None or row.best is None:
        return Detail([], {}, "No run found a feasible strategy.")
    try:
        if spec is None:
            raise InputError("the suite does not tell what the task is")
        task = _task(spec)
        if (row.task_digest, row.provenance.cost_model) != (task.digest, COST_MODEL_VERSION):
            raise InputError(f"the row is of another task or of cost model {row.provenance.cost_model}")
        return _detail(run, row, task)
    except InputError as error:
        return Detail([], {}, f"No breakdown: {error}.")


def _detail(run: Run, row: Row, task: Task) -> Detail:
    assert row.best is not None
    certificate, machine = certificate_of(task, row.instance), drawn_task(task, row.instance)
    checked = legal_any(row.best.strategy, task.model, task.cluster)
    given = (machine.model, machine.cluster, machine.engine, machine.workload)
    document = assessment_document(assess(*given, checked.strategy), checked)
    others = {RIVAL: _rival_strategy(run, row), "certified optimum": certificate.strategy}
    strategies: dict[str, AnyStrategy] = {run.agent: checked.strategy}
    for name, strategy in others.items():
        if strategy is not None and name != run.agent.split("@")[0]:
            strategies[name] = legal_any(strategy, task.model, task.cluster).strategy
    tables = [comparison(strategies), memory_table(document["memory_bytes"])]
    if "operators" in document:
        tables.append(time_table(document))
    return Detail(tables, drawings(checked.strategy, machine.cluster.scale_up.size))


def _rival_strategy(run: Run, row: Row) -> dict[str, Any] | None:
    theirs = rival(run.board).get((row.task, row.seed))
    return theirs.best.strategy if theirs is not None and theirs.best is not None else None


def drawings(strategy: AnyStrategy, domain: int) -> dict[str, bytes]:
    """Return the drawing of a strategy, or of each of its pools, as SVG."""
    shown = parts(strategy).items()
    return {pool: _drawing(part.degrees, tuple(part.sharding.items()), domain) for pool, part in shown}


# Agents often find the same strategy of a task.
@lru_cache(maxsize=64)
def _drawing(degrees: Degrees, sharding: tuple[tuple[str, tuple[str, ...]], ...], domain: int) -> bytes:
    with mpl.rc_context(DRAWING_STYLE):
        return saved(strategy_figure(degrees, dict(sharding), domain), "svg")
