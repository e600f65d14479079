"""A run of a suite: which cells, which of them are done already, and the rest to the executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import msgspec

from lts_bench.budget import parse_budget
from lts_bench.harness.cells import Cell, InstanceCard, make_cells, shard
from lts_bench.harness.execute import Place, execute, identify_instances, identify_tasks, open_pool
from lts_bench.harness.identify import identify_agents
from lts_bench.harness.sealed import bubblewrap
from lts_bench.results.grids import Grid
from lts_bench.results.schema import Row, Status
from lts_bench.results.store import read_row, write_grid
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite

RETRIED = (Status.CRASH, Status.TIMEOUT, Status.OOM)

Progress = Callable[[int, int, str], None]
"""Told what is done of how much, and what that is."""


class Options(msgspec.Struct, frozen=True):
    """How to run: ``shard`` is (i, n), counted from 1; ``resume`` keeps finished cells."""

    out: Path
    workers: int = 1
    isolation: str = "child"
    executor: str = "local"
    shard: tuple[int, int] = (1, 1)
    resume: bool = False
    retry_failed: bool = False


class Session(msgspec.Struct, frozen=True):
    """What a run leaves: the grid of the whole suite, this run's rows, remarks for people."""

    grid: Grid
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def overridden(suite: Suite, *, agents: Sequence[str] | None, seeds: int | None, budget: str | None) -> Suite:
    """Return the suite with other agents, number of seeds or budget, where they are given."""
    given = {"agents": tuple(agents) if agents else None, "seeds": seeds, "budget": budget}
    return msgspec.structs.replace(suite, **{name: value for name, value in given.items() if value is not None})


def run_suite(suite: Suite, options: Options, progress: Progress) -> Session:
    """Run every cell of a suite that is not finished yet.

    Args:
        suite: tasks, agents, number of seeds and budget.
        options: how to run.
        progress: told of every certified instance and every finished cell.

    Raises:
        InputError: an option is wrong, results are there and ``resume`` is not set, or an instance has no feasible
            strategy.
        WorkerLost: a worker was killed.
    """
    budget, seeds = parse_budget(suite.budget), range(1, suite.seeds + 1)
    make_cells([], [], seeds, budget, options.isolation)
    if options.isolation == "sealed":
        bubblewrap()
    agents = identify_agents(suite.agents, options.workers, options.isolation)
    directory = options.out / suite.name
    grid = Grid.of(suite)
    with open_pool(options.executor, options.workers) as pool:
        tasks = identify_tasks(pool, suite.tasks)
        cells = shard(make_cells(agents, tasks, seeds, budget, options.isolation), *options.shard)
        rows, notes = _finished(cells, directory, options)
        todo = [cell for cell in cells if cell.run_id not in rows]
        instances = _instances(pool, todo, progress)
        write_grid(directory, grid)
        progress(len(rows), len(cells), "")
        for row in execute(pool, todo, instances, directory):
            rows[row.run_id] = row
            progress(len(rows), len(cells), f"{row.label} {row.task} seed {row.seed}: {row.status}")
    return Session(grid, tuple(rows[cell.run_id] for cell in cells), tuple(notes))


def _instances(pool: Executor, cells: Sequence[Cell], progress: Progress) -> dict[Place, InstanceCard]:
    places = list(dict.fromkeys((cell.task.spec, cell.instance) for cell in cells))
    instances: dict[Place, InstanceCard] = {}
    for place, card in identify_instances(pool, places):
        instances[place] = card
        progress(len(instances), len(places), f"optimum of {place[0].name} instance {place[1]}")
    return instances


def _finished(cells: Sequence[Cell], directory: Path, options: Options) -> tuple[dict[str, Row], list[str]]:
    rows: dict[str, Row] = {}
    notes: list[str] = []
    for cell in cells:
        path = directory / f"{cell.run_id}.json"
        if not path.exists():
            continue
        if not options.resume:
            rule = f"{directory} holds results of this run already; add --resume, or choose another --out"
            raise InputError(rule, field="out")
        try:
            row = read_row(path)
        except InputError as error:
            notes.append(f"{error}: run again")
            continue
        if not (options.retry_failed and row.status in RETRIED):
            rows[row.run_id] = row
    return rows, notes
