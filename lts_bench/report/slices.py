"""Slices of a board: mean scores over tasks of one size of model, number of NPUs, network or tightness of SLOs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from lts_bench.report.leaderboard import Board
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec

MODEL_SIZES = ((30e9, "below 30 B"), (200e9, "30 B to 200 B"), (float("inf"), "200 B and more"))
"""Parameters in all, below the first number."""
NPUS = ((65, "up to 64"), (513, "65 to 512"), (float("inf"), "more than 512"))
TIGHT_TPOT_MS = 25.0
"""A limit on TPOT up to this one is tight, whatever the model: what a reader of the text asks for."""
SLOS = ("tight", "loose")

Groups = dict[str, dict[str, list[str]]]
"""Tasks by slice and group, groups in their order."""


def _size(spec: TaskSpec) -> str:
    return _bin(MODEL_SIZES, load_model(spec.model).parameters.total)


_cluster = lru_cache(load_cluster)


def _npus(spec: TaskSpec) -> str:
    return _bin(NPUS, _cluster(spec.cluster).devices)


def _topology(spec: TaskSpec) -> str:
    return network(_cluster(spec.cluster))


def _slo(spec: TaskSpec) -> str:
    limit = spec.workload.slo.tpot_ms
    return SLOS[0] if limit is not None and limit <= TIGHT_TPOT_MS else SLOS[1]


def _bin(bins: Sequence[tuple[float, str]], value: float) -> str:
    return next(name for bound, name in bins if value < bound)


def network(cluster: Cluster) -> str:
    """Return the kind of a cluster's networks: that of the domains, and that between them where there are several."""
    inside = cluster.scale_up.kind.replace("_", " ")
    several = cluster.scale_out is not None and cluster.devices > cluster.scale_up.size
    between = cluster.scale_out.kind.replace("_", " ") if several and cluster.scale_out else None
    return f"{inside}, {between}" if between else inside


SLICES: dict[str, tuple[Callable[[TaskSpec], str], tuple[str, ...]]] = {
    "model size": (_size, tuple(name for _, name in MODEL_SIZES)),
    "NPUs": (_npus, tuple(name for _, name in NPUS)),
    "topology": (_topology, ()),
    "SLO": (_slo, SLOS),
}
"""How a task's group is found, and the groups' order; by name where there is none."""


def groups(specs: Sequence[TaskSpec]) -> Groups:
    """Return the tasks in each group of each slice; tasks whose model or cluster is no longer there are left out."""
    found: Groups = {}
    for name, (group_of, order) in SLICES.items():
        members: dict[str, list[str]] = defaultdict(list)
        for spec in sorted(specs, key=lambda spec: spec.name):
            try:
                members[group_of(spec)].append(spec.name)
            except InputError:
                continue
        found[name] = {group: members[group] for group in order or sorted(members) if group in members}
    return found


def slice_scores(board: Board) -> list[tuple[str, str, int, str, float]]:
    """Return (slice, group, number of tasks, agent, mean score) for the agents without missing cells."""
    lines = []
    for name, members in groups(board.grid.specs).items():
        for group, tasks in members.items():
            for entry in board.scored:
                scores = [board.task_scores[task][entry.agent] for task in tasks]
                mean = float(np.mean([score for score in scores if score is not None]))
                lines.append((name, group, len(tasks), entry.agent, mean))
    return lines
