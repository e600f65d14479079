"""A suite: tasks, default agents, seeds and budget."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.loading import Count, RuleError, Text
from lts_bench.specs.taskspec import TaskSpec


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``lts-bench run --suite`` runs.

    Attributes:
        agents: run where none is named.
        seeds: number of seeds per agent and task.
        budget: a named budget, e.g. ``e1k``.
    """

    name: Text
    description: str
    agents: tuple[Text, ...]
    seeds: Count
    budget: Text
    tasks: tuple[TaskSpec, ...]

    def __post_init__(self) -> None:
        for field in ("agents", "tasks"):
            if not getattr(self, field):
                raise RuleError("must not be empty", field=field)
        values = {"tasks": [task.name for task in self.tasks], "agents": self.agents}
        for field, names in values.items():
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise RuleError("occurs twice", field=field, value=twice[0])


_SHELF = Shelf("suite", Suite, "lts_bench.suites")


def list_suites() -> list[str]:
    """Names of the built-in suites."""
    return _SHELF.names()


def load_suite(ref: str | Path) -> Suite:
    """Load a built-in suite by name, or a YAML file by path."""
    return _SHELF.load(ref)
