"""The local executor: worker processes that take cells, one result file per finished cell."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from lts_bench.harness.cells import Cell, TaskCard
from lts_bench.harness.lifeline import die_with_parent, end_with_groups
from lts_bench.results.schema import Row
from lts_bench.results.store import write_row
from lts_bench.specs.taskspec import TaskSpec

if TYPE_CHECKING:
    from lts_bench.task import Task

LOGS = "logs"


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


def identify_tasks(pool: ProcessPoolExecutor, specs: Sequence[TaskSpec]) -> list[TaskCard]:
    """Return the card of each task."""
    return list(pool.map(_identify_task, specs))


def execute(pool: ProcessPoolExecutor, cells: Sequence[Cell], directory: Path) -> Iterator[Row]:
    """Run cells, store each row when its cell is finished, and yield rows in the order in which they finish.

    Raises:
        WorkerLost: a worker was killed.
    """
    futures: list[Future[Row]] = [pool.submit(_work, cell, directory) for cell in cells]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise WorkerLost("a worker process was killed; finished cells are kept, --resume runs the others") from None


def _work(cell: Cell, directory: Path) -> Row:
    from lts_bench.harness.runner import run_cell

    row = run_cell(cell, _task(cell.task.spec), directory / LOGS / f"{cell.run_id}.log")
    write_row(directory, row)
    return row


def _identify_task(spec: TaskSpec) -> TaskCard:
    from lts_bench.cost.model import COST_MODEL_VERSION

    task = _task(spec)
    return TaskCard(spec, task.digest, task.space.digest, task.feedback, str(COST_MODEL_VERSION))


@lru_cache(maxsize=2)
def _task(spec: TaskSpec) -> Task:
    """Return a task; cells come sorted by task, and a large one's tables take hundreds of megabytes."""
    from lts_bench.task import Task

    return Task(spec)
