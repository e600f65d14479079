"""L3: agents on tasks that are drawn with a salt which was not known when they were submitted."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from lts_bench.budget import parse_budget
from lts_bench.generate import solvable_tasks
from lts_bench.harness.cells import AgentCard, make_cells
from lts_bench.harness.execute import execute, identify_instances, identify_tasks
from lts_bench.harness.identify import identify_agents
from lts_bench.harness.rig import Rig
from lts_bench.results.checks import Record
from lts_bench.results.schema import Row

REFERENCES = ("random", "megatron_search")
"""What is on every board, and runs beside the agents."""


def heldout(rig: Rig, rows: Sequence[Row]) -> Iterator[Record]:
    """Run every agent of the rows, and the references, on held-out tasks; tell the gap to its public score.

    Each plays seed 1 of each task, under the budget of its rows. The gap is told, not judged.
    """
    specs = list(itertools.islice(solvable_tasks("heldout", rig.demand.salt), rig.demand.heldout))
    tasks = identify_tasks(rig.pool, specs)
    instances = dict(identify_instances(rig.pool, [(spec, 1) for spec in specs]))
    for budget, agents in sorted(_agents(rig, rows).items()):
        cells = make_cells(agents, tasks, (1,), parse_budget(budget), rig.demand.isolation)
        scores: dict[str, list[float]] = defaultdict(list)
        for count, row in enumerate(execute(rig.pool, cells, instances, rig.directory), start=1):
            rig.progress(count, len(cells), f"{row.label} {row.task}")
            scores[row.label].append(row.score)
        for label, found in sorted(scores.items()):
            public = [row.score for row in rows if (row.label, row.budget) == (label, budget)]
            yield Record("L3", "heldout", True, f"{label} {budget}", "score", _told(found, public))


def _agents(rig: Rig, rows: Sequence[Row]) -> dict[str, list[AgentCard]]:
    """Return the agents of each budget, the references among them."""
    references = identify_agents(REFERENCES, 1, rig.demand.isolation)
    found: dict[str, list[AgentCard]] = {}
    for budget in {row.budget for row in rows}:
        labels = sorted({row.label for row in rows if row.budget == budget and row.label in rig.agents})
        mine = [rig.agents[label] for label in labels]
        found[budget] = mine + [card for card in references if card.name not in {each.name for each in mine}]
    return found


def _told(scores: Sequence[float], public: Sequence[float]) -> str:
    mean = float(np.mean(scores))
    there = f"; {np.mean(public):.4f} on public ones, gap {np.mean(public) - mean:+.4f}" if public else ""
    return f"{mean:.4f} on {len(scores)} held-out tasks{there}"
