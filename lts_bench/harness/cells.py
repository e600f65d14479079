"""Cells: agents × tasks × seeds in a fixed order, each with an id that says all its outcome depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

import msgspec

from lts_bench.budget import Budget
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec

ISOLATIONS = ("in_process", "child")
NOMINAL_INSTANCE = 0

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
    """A task and what identifies it: its own digest, that of its space, its feedback, the cost model's version."""

    spec: TaskSpec
    digest: str
    space_digest: str
    feedback: str
    cost_model: str

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.spec.name


class Cell(msgspec.Struct, frozen=True):
    """One run of one agent on one task with one seed."""

    task: TaskCard
    agent: AgentCard
    seed: int
    budget: Budget
    isolation: str
    instance: int = NOMINAL_INSTANCE

    @property
    def run_id(self) -> str:
        """The digest of everything that the outcome depends on; isolation and time limit are no part of it."""
        agent, task = self.agent, self.task
        identity = {
            "task": [task.name, task.digest, task.space_digest, task.feedback, task.cost_model],
            "instance": self.instance,
            "agent": f"{agent.name}@{agent.version}",
            "parameters": agent.parameters,
            "track": agent.track,
            "seed": self.seed,
            "budget": self.budget.name,
        }
        return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def make_cells(
    agents: Iterable[AgentCard], tasks: Iterable[TaskCard], seeds: Iterable[int], budget: Budget, isolation: str
) -> list[Cell]:
    """Return all cells, sorted by task, agent and seed.

    Raises:
        InputError: the isolation is unknown, or two agents have the same name and version.
    """
    if isolation not in ISOLATIONS:
        rule = "is not available" if isolation == "sealed" else "no such isolation"
        raise InputError(rule, field="isolation", value=isolation, legal=ISOLATIONS)
    cards = sorted(agents, key=lambda card: (card.name, card.version, card.ref))
    names = [f"{card.name}@{card.version}" for card in cards]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        refs = ", ".join(card.ref for card, name in zip(cards, names, strict=True) if name == twice[0])
        raise InputError(f"agents of the same name and version: {refs}", field="agent", value=twice[0])
    ordered = product(sorted(tasks, key=lambda task: task.name), cards, sorted(seeds))
    return [Cell(task, agent, seed, budget, isolation) for task, agent, seed in ordered]


def parse_shard(text: str) -> tuple[int, int]:
    """Read ``i/n``: the i-th of n parts, counted from 1."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise InputError("must be i/n with 1 ≤ i ≤ n", field="shard", value=text)
    return int(index), int(count)


def shard(items: Sequence[T], index: int, count: int) -> Sequence[T]:
    """Return every count-th item from the index-th (from 1) on: together the shards give every item once."""
    return items[index - 1 :: count]
