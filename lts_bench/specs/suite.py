"""A suite: tasks, default agents, seeds and budget."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.generated import SPLITS, named_tasks
from lts_bench.specs.loading import Count, RuleError, Text
from lts_bench.specs.taskspec import TaskSpec


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``lts-bench run --suite`` runs.

    Attributes:
        agents: run where none is named.
        seeds: number of seeds per agent and task.
        budget: a named budget, e.g. ``e1k``.
        admission: the test that every task passes (see `lts_bench.report.cards`); None where the description says what
            the tasks are for.
    """

    name: Text
    description: str
    agents: tuple[Text, ...]
    seeds: Count
    budget: Text
    tasks: tuple[TaskSpec, ...]
    admission: Literal["core", "hard"] | None = None

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


GENERATED = tuple(sorted(name for name, split in SPLITS.items() if split.tasks))
"""Built-in suites whose tasks are drawn, not written."""


def list_suites(*, generated: bool = True) -> list[str]:
    """Names of the built-in suites, with or without the generated ones."""
    return sorted([*_SHELF.names(), *(GENERATED if generated else ())])


def load_suite(ref: str | Path) -> Suite:
    """Load a built-in suite by name, or a YAML file by path."""
    if ref in GENERATED:
        return generated_suite(str(ref), named_tasks(str(ref)))
    return _SHELF.load(ref)


def generated_suite(split: str, tasks: tuple[TaskSpec, ...]) -> Suite:
    """Return a suite of drawn tasks."""
    return Suite(split, SPLITS[split].description, ("megatron_search", "random", "evolution", "ppo"), 3, "e1k", tasks)
