"""Generated tasks that can be solved: proposals, each drawn again until some strategy meets its limits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np

from lts_bench.harness.execute import finished, worker_pool
from lts_bench.results.store import write_output
from lts_bench.space.megatron import megatron_vectors
from lts_bench.specs.failure import InputError
from lts_bench.specs.generated import REDRAWS_FILE, proposal, split_of, stored_redraws
from lts_bench.specs.suite import generated_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task

Progress = Callable[[int, int, str], None]

SAMPLES = 10_000
"""Random strategies that are tried beside Megatron's pattern."""
MOST_REDRAWS = 100
"""Draws of a task's limits that are tried; three in a hundred tasks need a second one."""


def solvable(spec: TaskSpec) -> bool:
    """Whether a feasible strategy is found, and Megatron's pattern fits the memory, which a reference needs."""
    task = Task(spec)
    patterns = task.evaluate(megatron_vectors(task.space))
    if patterns["feasible"].any() or not (patterns["violation"][:, 0] == 0).any():
        return bool(patterns["feasible"].any())
    return bool(task.evaluate(task.space.sample(SAMPLES, np.random.default_rng(0)))["feasible"].any())


def redraws_of(split: str, index: int, salt: str = "") -> int:
    """How often a task's limits have to be drawn again until it can be solved.

    Raises:
        InputError: none of `MOST_REDRAWS` can.
    """
    for attempt in range(MOST_REDRAWS):
        if solvable(proposal(split, index, attempt, salt)):
            return attempt
    name = proposal(split, index, 0, salt).name
    raise InputError(f"none of {MOST_REDRAWS} draws of its limits can be met", field="task", value=name)


def solvable_tasks(split: str, salt: str = "", start: int = 0) -> Iterator[TaskSpec]:
    """Yield tasks of a split without end; the i-th depends on split, salt and i alone.

    Example:
        >>> tasks = list(itertools.islice(solvable_tasks("train"), 5000))
        >>> gymnasium.make("lts_bench:lts/Shard-v0", suite=tasks)
    """
    for index in itertools.count(start):
        yield proposal(split, index, redraws_of(split, index, salt), salt)


def count_redraws(split: str, tasks: int, salt: str, workers: int, progress: Progress) -> list[int]:
    """How often each of the first tasks of a split is drawn again.

    Raises:
        InputError: there is no such split, or heldout has no salt: its tasks are to be unknown before.
        WorkerLost: a worker was killed.
    """
    if not split_of(split).tasks and not salt:
        raise InputError("needs a salt that nobody knows before", field="--salt", value=salt)
    counts: dict[int, int] = {}
    with worker_pool(workers) as pool:
        for index, count in finished(pool, _count, [(split, index, salt) for index in range(tasks)]):
            counts[index] = count
            progress(len(counts), tasks, f"task {index}")
    return [counts[index] for index in range(tasks)]


def _count(split: str, index: int, salt: str) -> tuple[int, int]:
    return index, redraws_of(split, index, salt)


def write_suite(path: Path, split: str, counts: Sequence[int], salt: str) -> None:
    """Write drawn tasks as a suite in YAML, which the commands take as any other."""
    tasks = tuple(proposal(split, index, count, salt) for index, count in enumerate(counts))
    write_output(path, msgspec.yaml.encode(generated_suite(split, tasks)))


def write_redraws(split: str, counts: Sequence[int]) -> None:
    """Keep beside the built-in suites which tasks of a generated one are drawn again, and how often."""
    redraws = {**stored_redraws(), split: {str(index): count for index, count in enumerate(counts) if count}}
    path = Path(str(resources.files("lts_bench.suites"))) / REDRAWS_FILE
    write_output(path, json.dumps(redraws, indent=1, sort_keys=True) + "\n")
