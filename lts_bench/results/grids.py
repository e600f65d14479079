"""The grid of a suite: which cells a board must hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.results.card import CARD_FILE, read_card
from lts_bench.results.schema import Row
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task

GRID_FILE = "suite.json"
GRID_FILES = (GRID_FILE, CARD_FILE)
"""What tells which suites the rows beside it belong to."""


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a board must hold: every task with every seed under one budget, for each agent.

    Attributes:
        tasks: names, in the order of the suite.
        specs: what these are, for suites that are not built in.
    """

    name: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: str
    specs: tuple[TaskSpec, ...] = ()

    @classmethod
    def of(cls, suite: Suite) -> Grid:
        """Return the grid of a suite; why a task is in it changes nothing."""
        specs = tuple(msgspec.structs.replace(spec, why="") for spec in suite.tasks)
        names = tuple(spec.name for spec in specs)
        return cls(suite.name, names, tuple(range(1, suite.seeds + 1)), suite.budget, specs)

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of the grid's cells, by the names of its tasks."""
        tasks, seeds = set(self.tasks), set(self.seeds)
        return [row for row in rows if row.task in tasks and row.seed in seeds and row.budget == self.budget]

    def own_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of the grid's tasks: two suites may call different tasks the same."""
        mine = self.rows(rows)
        digests = self._digests(_ambiguous(mine))
        return [
            row for row in mine if not _is_current(row) or row.task_digest == digests.get(row.task, row.task_digest)
        ]

    def _digests(self, names: set[str]) -> dict[str, str]:
        """Return the digests of some of the grid's tasks."""
        return {spec.name: Task(spec).digest for spec in self.specs if spec.name in names}


def _is_current(row: Row) -> bool:
    return row.provenance.cost_model == COST_MODEL_VERSION


def _ambiguous(rows: Iterable[Row]) -> set[str]:
    """Return the names under which there are rows of several tasks."""
    digests: dict[str, set[str]] = defaultdict(set)
    for row in filter(_is_current, rows):
        digests[row.task].add(row.task_digest)
    return {name for name, found in digests.items() if len(found) > 1}


def read_grid(path: Path) -> Grid:
    """Read the grid that lies beside rows.

    Raises:
        InputError: it is broken.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Grid)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(str(error), source=str(path)) from None


def add_grids(grids: dict[str, Grid], file: Path) -> None:
    """Add the grid of a ``suite.json``, or those of the built-in suites that a card names, to those of other files.

    Raises:
        InputError: the file is broken, or a grid differs from one of the same name.
    """
    is_card = file.name == CARD_FILE
    for grid in [Grid.of(load_suite(name)) for name in read_card(file).suites] if is_card else [read_grid(file)]:
        if grids.setdefault(grid.name, grid) != grid:
            rule = "another suite of this name has other tasks, seeds or budget"
            raise InputError(rule, source=str(file), field="name", value=grid.name)


def built_in_grids(tasks: Iterable[str]) -> dict[str, Grid]:
    """Return the grids of the built-in suites that hold any of the tasks."""
    grids = [Grid.of(load_suite(name)) for name in list_suites()]
    return {grid.name: grid for grid in grids if set(tasks).intersection(grid.tasks)}
