"""Executors: processes of this machine, or a Ray cluster, that take cells; one result file per finished cell."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lts_bench.harness.cells import Cell, InstanceCard, TaskCard
from lts_bench.harness.lifeline import adopt_orphans, die_with_parent, end_children, end_with_groups
from lts_bench.harness.nursery import nursery_pids
from lts_bench.harness.ray_pool import Lost, ray_pool
from lts_bench.results.schema import Optimum, Row
from lts_bench.results.store import write_atomically, write_row
from lts_bench.specs.failure import InputError
from lts_bench.specs.taskspec import TaskSpec

if TYPE_CHECKING:
    from lts_bench.task import Task

EXECUTORS = ("local", "ray")
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


@contextmanager
def open_pool(executor: str, workers: int) -> Iterator[Executor]:
    """Give the workers of an executor.

    Raises:
        InputError: there is no such executor, or it cannot be used.
    """
    if executor not in EXECUTORS:
        raise InputError("no such executor", field="executor", value=executor, legal=EXECUTORS)
    with ray_pool() if executor == "ray" else worker_pool(workers) as pool:
        yield pool


def finished(pool: Executor, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
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
    except Lost as lost:
        raise WorkerLost(f"a cell was lost with its node or worker: {lost}") from None


def identify_tasks(pool: Executor, specs: Sequence[TaskSpec]) -> list[TaskCard]:
    """Return the card of each task."""
    return list(pool.map(_identify_task, specs))


def identify_instances(pool: Executor, places: Sequence[Place]) -> Iterator[tuple[Place, InstanceCard]]:
    """Yield the card of each instance when it is known; the optimum of one without a stored certificate is sought now.

    Raises:
        InputError: an instance has no feasible strategy.
        WorkerLost: a worker was killed.
    """
    return finished(pool, _identify_instance, places)


def execute(
    pool: Executor, cells: Sequence[Cell], instances: Mapping[Place, InstanceCard], directory: Path
) -> Iterator[Row]:
    """Run cells, store each row when its cell is finished, and yield rows in the order in which they finish.

    Raises:
        WorkerLost: a worker was killed.
    """
    calls = [(cell, instances[cell.task.spec, cell.instance]) for cell in cells]
    if isinstance(pool, ProcessPoolExecutor):
        yield from finished(pool, _work, [(*call, directory) for call in calls])
        return
    for row, log in finished(pool, _work_elsewhere, calls):
        write_atomically(_log(directory, row.run_id), log)
        write_row(directory, row)
        yield row


def _work(cell: Cell, instance: InstanceCard, directory: Path) -> Row:
    row = _run(cell, instance, _log(directory, cell.run_id))
    # Those that left the agent's process group.
    end_children(nursery_pids())
    write_row(directory, row)
    return row


def _work_elsewhere(cell: Cell, instance: InstanceCard) -> tuple[Row, bytes]:
    """Return the row, and what the agent printed: this machine need not have the driver's files."""
    with tempfile.TemporaryDirectory(prefix="lts-bench-") as folder:
        log = Path(folder) / "log"
        return _run(cell, instance, log), log.read_bytes()


def _run(cell: Cell, instance: InstanceCard, log: Path) -> Row:
    from lts_bench.harness.runner import run_cell

    return run_cell(cell, drawn_task(cell.task.spec, cell.instance, instance.draw), instance.optimum, log)


def _log(directory: Path, run_id: str) -> Path:
    return directory / LOGS / f"{run_id}.log"


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
