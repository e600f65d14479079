"""Audits: agents on tasks that are the same under other numbers, on other machines, and without evaluations."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from lts_bench.budget import Budget
from lts_bench.harness.cells import Cell, InstanceCard
from lts_bench.harness.execute import drawn_task, finished, identify_instances
from lts_bench.harness.rig import Rig
from lts_bench.results.checks import Record
from lts_bench.results.schema import Row

if TYPE_CHECKING:
    from lts_bench.task import Task

CELLS = 3
"""Of each agent, that an audit runs."""
LARGEST_FALL = 0.15
"""Of the mean score below that of the stored cells; chance alone moves the mean of three by some hundredths."""
FURTHEST = 10**6
"""The largest number of an instance that the audit draws; suites use the first ten."""


class Relabelled:
    """A task whose choices have other numbers; see `lts_bench.space.relabel`."""

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        from lts_bench.space.relabel import Relabelling

        self._task, self._labels = task, Relabelling(task.space, rng)
        self.space, self.workload = self._labels.space, task.workload
        self.features, self.feedback = task.features, task.feedback

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        """Score vectors of the relabelled space."""
        return self._task.evaluate(self._labels.original(vectors))


def audit(rig: Rig, rows: Sequence[Row]) -> Iterator[Record]:
    """Put every agent to all audits on some of its cells."""
    chosen: dict[str, list[Row]] = defaultdict(list)
    for row in rig.drawn(rows):
        if len(chosen[row.label]) < CELLS:
            chosen[row.label].append(row)
    plans = list(product(sorted(chosen), AUDITS))
    for count, (label, name) in enumerate(plans, start=1):
        yield AUDITS[name](rig, name, label, chosen[label])
        rig.progress(count, len(plans), f"{name} {label}")


def relabelled(rig: Rig, name: str, label: str, rows: Sequence[Row]) -> Record:
    """The same tasks and machines, degrees and letters under other numbers: who remembers vectors falls."""
    cells = [rig.cell(row) for row in rows]
    return _compared(name, label, rows, _run(rig, cells, _relabelled_cell))


def perturbed(rig: Rig, name: str, label: str, rows: Sequence[Row]) -> Record:
    """The same tasks on machines that no suite draws: who remembers the machines of the suites falls."""
    cells = []
    for row in rows:
        number = 1 + int(hashlib.sha256(f"{rig.demand.salt}/{row.run_id}".encode()).hexdigest()[:8], 16) % FURTHEST
        cells.append(msgspec.structs.replace(rig.cell(row), seed=number, instance=number))
    return _compared(name, label, rows, _run(rig, cells, _plain_cell))


def no_evaluations(rig: Rig, name: str, label: str, rows: Sequence[Row]) -> Record:
    """Without evaluations there is no best strategy, whatever the agent knows."""
    nothing = Budget("e0", 0, 60.0)
    cells = [msgspec.structs.replace(rig.cell(row), budget=nothing) for row in rows[:1]]
    (row,) = _run(rig, cells, _plain_cell)
    right = row.best is None and row.cost.evaluations == 0
    message = "" if right else f"has a best strategy after {row.cost.evaluations} evaluations of 0"
    return Record("audit", name, right, label, "best" if message else "", message)


AUDITS: Mapping[str, Callable[[Rig, str, str, Sequence[Row]], Record]] = {
    "relabelled": relabelled,
    "perturbed": perturbed,
    "no_evaluations": no_evaluations,
}


def _compared(name: str, label: str, before: Sequence[Row], after: Sequence[Row]) -> Record:
    stored, found = (float(np.mean([row.score for row in rows])) for rows in (before, after))
    message = f"{name}: {found:.4f} in {len(after)} cells, stored {stored:.4f}"
    return Record("audit", name, found >= stored - LARGEST_FALL, label, "score", message)


def _run(rig: Rig, cells: Sequence[Cell], work: Callable[..., Row]) -> list[Row]:
    places = list({(cell.task.spec, cell.instance): None for cell in cells})
    instances = dict(identify_instances(rig.pool, places))
    calls: list[tuple[Any, ...]] = [
        (cell, instances[cell.task.spec, cell.instance], rig.demand.salt, rig.directory / "log") for cell in cells
    ]
    return list(finished(rig.pool, work, calls))


def _plain_cell(cell: Cell, instance: InstanceCard, salt: str, log: Path) -> Row:
    from lts_bench.harness.runner import run_cell

    return run_cell(cell, drawn_task(cell.task.spec, cell.instance, instance.draw), instance.optimum, log)


def _relabelled_cell(cell: Cell, instance: InstanceCard, salt: str, log: Path) -> Row:
    from lts_bench.harness.runner import run_cell

    rng = np.random.default_rng(list(f"{salt}/{cell.run_id}".encode()))
    task: Any = Relabelled(drawn_task(cell.task.spec, cell.instance, instance.draw), rng)
    return run_cell(cell, task, instance.optimum, log)
