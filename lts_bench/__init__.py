"""lts-bench: how well agents find parallelisation strategies for LLM inference under a fixed budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lts_bench.envs_on_import import register_with_gymnasium

if TYPE_CHECKING:
    from lts_bench.task import Task

__version__ = "0.1.0"
__all__ = ["__version__", "list_tasks", "load_task", "make_task"]


def list_tasks() -> list[str]:
    """Return the names of all tasks of the built-in suites, sorted."""
    from lts_bench.specs.suite import list_suites, load_suite

    return sorted({task.name for suite in list_suites() for task in load_suite(suite).tasks})


def load_task(name: str) -> Task:
    """Return a task of a built-in suite by name."""
    from lts_bench import task

    return task.load_task(name)


def make_task(**options: Any) -> Task:
    """Return a task from ``model``, ``cluster`` and ``workload``, as the command line takes them.

    Further options are those of a task's spec: ``engine``, ``precision``, ``kv_precision``, ``feedback``.
    """
    from lts_bench import task

    return task.make_task(**options)


register_with_gymnasium()
