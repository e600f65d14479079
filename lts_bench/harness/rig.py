"""What verification runs agents with: their sources, the tasks of stored rows, workers, a place that is thrown away."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lts_bench.budget import parse_budget
from lts_bench.harness.cells import AgentCard, Cell, TaskCard
from lts_bench.harness.execute import identify_tasks, worker_pool
from lts_bench.harness.identify import identify_agents
from lts_bench.registry import describe_agent
from lts_bench.results.card import CARD_FILE, read_card
from lts_bench.results.levels import LevelName
from lts_bench.results.schema import Row
from lts_bench.results.store import result_files
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec

Progress = Callable[[int, int, str], None]


class Demand(msgspec.Struct, frozen=True):
    """What to verify by running agents.

    Attributes:
        rerun: share of cells that are run again.
        heldout: number of held-out tasks.
        audit: whether agents are put to the audits.
        salt: decides which cells and tasks; not known to submitters.
        agents: references of agents that neither a card nor the registry tells.
    """

    rerun: float = 0.0
    heldout: int = 0
    audit: bool = False
    salt: str = ""
    isolation: str = "child"
    workers: int = 1
    agents: tuple[str, ...] = ()

    @property
    def runs_agents(self) -> bool:
        """Whether anything is to be run."""
        return self.rerun > 0 or self.heldout > 0 or self.audit

    @property
    def levels(self) -> tuple[LevelName, ...]:
        """The levels of verification that it may give: agents that are not sealed could help themselves."""
        if self.isolation != "sealed" or not self.rerun:
            return ()
        return ("L2", "L3") if self.heldout and self.audit else ("L2",)


@dataclass(frozen=True)
class Rig:
    """Agents by label and tasks by digest, ready to run."""

    demand: Demand
    pool: Executor
    agents: Mapping[str, AgentCard]
    tasks: Mapping[str, TaskCard]
    directory: Path
    progress: Progress

    def cell(self, row: Row) -> Cell:
        """Return the cell that a row is of."""
        budget = parse_budget(row.budget)
        agent = self.agents[row.label]
        return Cell(self.tasks[row.task_digest], agent, row.seed, row.instance, budget, self.demand.isolation)

    def drawn(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows that can be run again, in an order that the salt decides."""
        able = [row for row in rows if row.label in self.agents and row.task_digest in self.tasks]
        return sorted(able, key=lambda row: lot(self.demand.salt, row.run_id))


def lot(salt: str, run_id: str) -> float:
    """Return a number in [0, 1) that nobody knows who does not know the salt."""
    return int(hashlib.sha256(f"{salt}/{run_id}".encode()).hexdigest()[:13], 16) / 16**13


@contextmanager
def open_rig(
    demand: Demand, paths: Sequence[Path], rows: Iterable[Row], specs: Sequence[TaskSpec], progress: Progress
) -> Iterator[Rig]:
    """Give a rig for the agents of some rows and the tasks that suites tell.

    Raises:
        InputError: the source of an agent is not known, or cannot be imported.
    """
    refs = _refs(demand, paths)
    labels = sorted({row.label for row in rows})
    cards = identify_agents([refs.get(label, label.partition("@")[0]) for label in labels], 1, demand.isolation)
    for label, card in zip(labels, cards, strict=True):
        if f"{card.name}@{card.version}" != label:
            rule = f"the source at hand is {card.name}@{card.version}: name that of the rows with --agent"
            raise InputError(rule, field="agent", value=label)
    with worker_pool(demand.workers) as pool, tempfile.TemporaryDirectory(prefix="lts-bench-") as directory:
        tasks = {card.digest: card for card in identify_tasks(pool, specs)}
        yield Rig(demand, pool, dict(zip(labels, cards, strict=True)), tasks, Path(directory), progress)


def _refs(demand: Demand, paths: Sequence[Path]) -> dict[str, str]:
    """Return where agents are found: named ones, and those whose file lies beside a card."""
    refs = {}
    for file in result_files(paths):
        if file.name == CARD_FILE:
            card = read_card(file)
            if ".py:" in card.source:
                refs[card.label] = str(file.parent / card.source)
    for ref in demand.agents:
        info = describe_agent(ref)
        refs[f"{info.name}@{info.version}"] = ref
    return refs
