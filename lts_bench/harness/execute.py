"""The local executor: worker processes that take cells, one result file per finished cell."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lts_bench.harness.cells import Cell, InstanceCard, TaskCard
from lts_bench.harness.lifeline import adopt_orphans, die_with_parent, end_children, end_with_groups
from lts_bench.results.schema import Optimum, Row
from lts_bench.results.store import write_row
from lts_bench.specs.taskspec import TaskSpec

if TYPE_CHECKING:
    from lts_bench.task import Task

LOGS = "logs"

T = TypeVar("T")
Place = tuple[TaskSpec, int]
"""A task and the number of an instance."""


class WorkerLost(Exception):  # noqa: N818 (what happened, in the words of the message)
    """A worker process ended in mid-cell; what was finished is stored."""


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool whose processes end with this one, however this one ends."""
    pool = ProcessPoolExecutor(
        max_workers=workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(os.getpid(),),
    )
    try:
        yield pool
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end_with_groups)
    die_with_parent(signal.SIGTERM, parent)
    adopt_orphans()


def finished(pool: ProcessPoolExecutor, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """Call a function in the workers with each of some arguments; yield the answers in the order in which they come.

    Raises:
        WorkerLost: a worker was killed.
    """
    futures: list[Future[T]] = [pool.submit(work, *arguments) for arguments in calls]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise WorkerLost("a worker process was killed") from None


def identify_tasks(pool: ProcessPoolExecutor, specs: Sequence[TaskSpec]) -> list[TaskCard]:
    """Return the card of each task."""
    return list(pool.map(_identify_task, specs))


def identify_instances(pool: ProcessPoolExecutor, places: Sequence[Place]) -> Iterator[tuple[Place, InstanceCard]]:
    """Yield the card of each instance when it is known; the optimum of one without a stored certificate is sought now.

    Raises:
        InputError: an instance has no feasible strategy.
        WorkerLost: a worker was killed.
    """
    return finished(pool, _identify_instance, places)


def execute(
    pool: ProcessPoolExecutor, cells: Sequence[Cell], instances: Mapping[Place, InstanceCard], directory: Path
) -> Iterator[Row]:
    """Run cells, store each row when its cell is finished, and yield rows in the order in which they finish.

    Raises:
        WorkerLost: a worker was killed.
    """
    return finished(pool, _work, [(cell, instances[cell.task.spec, cell.instance], directory) for cell in cells])


def _work(cell: Cell, instance: InstanceCard, directory: Path) -> Row:
    from lts_bench.harness.runner import run_cell

    task = drawn_task(cell.task.spec, cell.instance, instance.draw)
    row = run_cell(cell, task, instance.optimum, directory / LOGS / f"{cell.run_id}.log")
    # Those that left the agent's process group.
    end_children()
    write_row(directory, row)
    return row


def _identify_task(spec: TaskSpec) -> TaskCard:
    from lts_bench.cost.model import COST_MODEL_VERSION

    task = _task(spec)
    return TaskCard(spec, task.digest, task.space.digest, COST_MODEL_VERSION)


def _identify_instance(spec: TaskSpec, number: int) -> tuple[Place, InstanceCard]:
    from lts_bench.exact.certificates import certificate_of

    found = certificate_of(_task(spec), number)
    return (spec, number), InstanceCard(found.draw, Optimum(goodput_per_npu=found.optimum, certified=found.certified))


@lru_cache(maxsize=1)
def _task(spec: TaskSpec) -> Task:
    """Return a task; cells come sorted by task, and a large one's tables take hundreds of megabytes."""
    from lts_bench.task import Task

    return Task(spec)


@lru_cache(maxsize=1)
def drawn_task(spec: TaskSpec, number: int, draw: int) -> Task:
    """Return a task on the machine of an instance, for the worker that asks."""
    return _task(spec).instance(number, draw)
