"""Cells: tasks × agents × seeds in a fixed order, each with an id that says all its outcome depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

import msgspec

from lts_bench.budget import Budget
from lts_bench.results.identity import run_id
from lts_bench.results.schema import Optimum
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec

ISOLATIONS = ("in_process", "child", "sealed")
SEED_DIGITS = 8
"""Hexadecimal digits of an agent's seed: NumPy's older generators take 32 bits."""

T = TypeVar("T")


class AgentCard(msgspec.Struct, frozen=True):
    """What identifies an agent: ``ref`` finds it, ``digest`` is that of its source."""

    ref: str
    name: str
    version: str
    track: str
    parameters: dict[str, Any]
    digest: str


class TaskCard(msgspec.Struct, frozen=True):
    """A task and what identifies it: its own digest, that of its space, the cost model's version."""

    spec: TaskSpec
    digest: str
    space_digest: str
    cost_model: str

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.spec.name


class InstanceCard(msgspec.Struct, frozen=True):
    """An instance of a task: which draw of the constants it is, and the best goodput there."""

    draw: int
    optimum: Optimum


class Cell(msgspec.Struct, frozen=True):
    """One run of one agent on one instance of a task."""

    task: TaskCard
    agent: AgentCard
    seed: int
    instance: int
    budget: Budget
    isolation: str

    @property
    def run_id(self) -> str:
        """The digest of everything that the outcome depends on."""
        return run_id(
            task=self.task.name,
            task_digest=self.task.digest,
            space_digest=self.task.space_digest,
            cost_model=self.task.cost_model,
            instance=self.instance,
            agent=self.agent.name,
            version=self.agent.version,
            parameters=self.agent.parameters,
            track=self.agent.track,
            seed=self.seed,
            budget=self.budget.name,
        )

    @property
    def agent_seed(self) -> int:
        """The seed that the agent gets: the same in every run of the cell, and no trace of the instance's number."""
        return int(self.run_id[:SEED_DIGITS], 16)


def make_cells(
    agents: Iterable[AgentCard], tasks: Iterable[TaskCard], seeds: Iterable[int], budget: Budget, isolation: str
) -> list[Cell]:
    """Return all cells, sorted by task, agent and seed; seed i runs instance i.

    An agent's cells of a task follow each other, so that a worker imports it once for all of them.

    Raises:
        InputError: the isolation is unknown, or two agents have the same name and version.
    """
    if isolation not in ISOLATIONS:
        raise InputError("no such isolation", field="isolation", value=isolation, legal=ISOLATIONS)
    cards = sorted(agents, key=lambda card: (card.name, card.version, card.ref))
    names = [f"{card.name}@{card.version}" for card in cards]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        refs = ", ".join(card.ref for card, name in zip(cards, names, strict=True) if name == twice[0])
        raise InputError(f"agents of the same name and version: {refs}", field="agent", value=twice[0])
    ordered = product(sorted(tasks, key=lambda task: task.name), cards, sorted(seeds))
    return [Cell(task, agent, seed, seed, budget, isolation) for task, agent, seed in ordered]


def parse_shard(text: str) -> tuple[int, int]:
    """Read ``i/n``: the i-th of n parts, counted from 1."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise InputError("must be i/n with 1 ≤ i ≤ n", field="shard", value=text)
    return int(index), int(count)


def shard(items: Sequence[T], index: int, count: int) -> Sequence[T]:
    """Return every count-th item from the index-th (from 1) on: together the shards give every item once."""
    return items[index - 1 :: count]
