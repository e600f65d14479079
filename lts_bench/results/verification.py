"""``lts-bench verify``: every stored row is read, checked and scored again; no failure stops another check."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, product
from pathlib import Path
from typing import Any

import msgspec

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.certificates import certificate_of, stored_certificates
from lts_bench.results.checks import L0, L1, Evidence, Problem, Problems, Record, check_certificate, check_task, records
from lts_bench.results.grids import GRID_FILES, Grid, add_grids
from lts_bench.results.schema import Row
from lts_bench.results.store import Stored, documents, merge, result_files
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task


def verification_document(found: Sequence[Record]) -> dict[str, Any]:
    """What ``lts-bench verify`` answers."""
    failed = sum(not record.ok for record in found)
    return {"failed": failed, "checks": [msgspec.to_builtins(record) for record in found]}


def verification_lines(document: Mapping[str, Any]) -> list[str]:
    """What a document tells people: all that is wrong or cannot be verified, then the sum."""
    checks = document["checks"]
    told = [": ".join(filter(None, (each["file"], each["field"], each["message"]))) for each in checks]
    lines = [line for each, line in zip(checks, told, strict=True) if each["message"]]
    return [*lines, f"{len(checks)} checks, {document['failed']} failed"]


def verify(paths: Sequence[Path], each: Callable[..., Iterable[list[Record]]] = map) -> list[Record]:
    """Check all rows of some directories, the suites that they belong to and these suites' certificates.

    Args:
        paths: directories or files of results.
        each: calls a function with every task's arguments, as ``map`` does; an executor's does it in several processes.

    Raises:
        InputError: a path does not exist, or there are no results.
    """
    found: list[Record] = []
    stored, sources = read_readable(paths, found)
    if not found:
        raise InputError("no results are there", value=", ".join(map(str, paths)))
    current = [row for row in stored.rows.values() if row.provenance.cost_model == COST_MODEL_VERSION]
    for row in stored.rows.values():
        found += _well_formed(row, sources[row.run_id])
    grids: list[Grid] = []
    with _recorded(found, "suite", ", ".join(map(str, paths))):
        grids = stored.suites()
    tasks: dict[str, TaskSpec] = {}
    for grid in grids:
        found += records("L0", "complete", grid.name, _incomplete(grid, current))
        found += _identified(grid, current, sources, tasks)
    for row in current:
        if row.task_digest not in tasks:
            message = "no suite here has this task: the row is not scored again"
            found.append(Record("L1", "task", False, sources[row.run_id], "task", message))
    specs = sorted(tasks.values(), key=lambda spec: spec.name)
    of_task = {spec: [row for row in current if tasks.get(row.task_digest) == spec] for spec in specs}
    files = [{row.run_id: sources[row.run_id] for row in mine} for mine in of_task.values()]
    return found + list(chain.from_iterable(each(_rescored, specs, of_task.values(), files)))


def _well_formed(row: Row, source: str) -> Iterator[Record]:
    version = row.provenance.cost_model
    if version != COST_MODEL_VERSION:
        message = f"is {version}: not verifiable under version {COST_MODEL_VERSION}"
        yield Record("L0", "cost_model", True, source, "provenance.cost_model", message)
        return
    for name, check in L0.items():
        yield from records("L0", name, source, check(row))


def read_readable(paths: Sequence[Path], found: list[Record]) -> tuple[Stored, dict[str, str]]:
    """Read what can be read; give it with the source of each row, and add a record for each document."""
    rows: dict[str, Row] = {}
    sources: dict[str, str] = {}
    grids: dict[str, Grid] = {}
    notes: list[str] = []
    for file in result_files(paths):
        if file.name in GRID_FILES:
            with _recorded(found, "grid", str(file)):
                add_grids(grids, file)
            continue
        for document in documents(file, notes):
            with _recorded(found, "row", document.source):
                merge(rows, sources, document.row(), document.source)
    for note in notes:
        source, _, message = note.rpartition(": ")
        found.append(Record("L0", "row", False, source, "", message))
    return Stored(dict(sorted(rows.items())), grids, ()), sources


@contextmanager
def _recorded(found: list[Record], name: str, source: str) -> Iterator[None]:
    """Add the record of something that is right where no InputError leaves it."""
    try:
        yield
    except InputError as error:
        field = error.field or ""
        message = str(error).removeprefix(f"{source}: ").removeprefix(f"{field}: ")
        found.append(Record("L0", name, False, source, field, message))
    else:
        found.append(Record("L0", name, True, source))


def _incomplete(grid: Grid, rows: Iterable[Row]) -> Problems:
    """Every task with every seed must be there once, for each agent."""
    agents: dict[tuple[str, str], Counter[tuple[str, int]]] = defaultdict(Counter)
    for row in grid.rows(rows):
        agents[row.track, row.label][row.task, row.seed] += 1
    for (_, agent), cells in sorted(agents.items()):
        for task, seed in product(sorted(grid.tasks), sorted(grid.seeds)):
            if cells[task, seed] != 1:
                yield Problem(agent, f"{task} seed {seed} is there {cells[task, seed]} times")


def _identified(
    grid: Grid, rows: Iterable[Row], sources: Mapping[str, str], tasks: dict[str, TaskSpec]
) -> Iterator[Record]:
    """Tell whether rows are of the suite's tasks; add these, and those with certificates alone, by digest."""
    specs = {spec.name: spec for spec in (load_suite(grid.name).tasks if grid.name in list_suites() else grid.specs)}
    by_name: dict[str, list[Row]] = {each.task: [] for each in stored_certificates().values() if each.task in specs}
    for row in grid.rows(rows):
        by_name.setdefault(row.task, []).append(row)
    for name, mine in sorted(by_name.items()):
        try:
            if name not in specs:
                raise InputError("no suite tells what it is")
            task = Task(specs[name])
        except InputError as error:
            for row in mine:
                yield Record("L1", "task", False, sources[row.run_id], "task", str(error))
            continue
        tasks.setdefault(task.digest, specs[name])
        for row in mine:
            yield from records("L1", "task", sources[row.run_id], check_task(row, task))


def _rescored(spec: TaskSpec, rows: list[Row], sources: Mapping[str, str]) -> list[Record]:
    """Score the rows of a task again, and the certificates of its instances."""
    task, found = Task(spec), list[Record]()
    stored = {number for digest, _, number in stored_certificates() if digest == task.digest}
    for number in sorted(stored | {row.instance for row in rows}):
        mine = [row for row in rows if row.instance == number]
        try:
            certificate = certificate_of(task, number)
        except InputError as error:
            found += [Record("L1", "optimum", False, sources[row.run_id], "optimum", str(error)) for row in mine]
            continue
        drawn = task.instance(number, certificate.draw)
        title = f"certificate of {task.name} instance {number}"
        found += records("L1", "certificate", title, check_certificate(drawn, certificate))
        for row, (name, check) in product(mine, L1.items()):
            found += records("L1", name, sources[row.run_id], check(Evidence(row, task, drawn, certificate)))
    return found
