"""Which games an environment plays: one problem, or the tasks of a suite."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from lts_bench.envs.common import resolve_problem, resolve_reference
from lts_bench.envs.frame import Frame, check_largest, problem_frame, suite_frame
from lts_bench.envs.game import Game
from lts_bench.problem import LocalProblem, Problem, Scorer, reference_goodput
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import load_suite
from lts_bench.specs.taskspec import TaskSpec

KEPT_TASKS = 16
"""Tasks of a suite that stay built beside those being played; each has cost tables of some megabytes."""

Suite = str | Path | Iterable[TaskSpec]
"""A built-in suite, a YAML file, or tasks."""


class Games(Protocol):
    """Games that share a frame.

    Attributes:
        frame: the room of observations and actions.
        count: how many there are.
    """

    frame: Frame
    count: int

    def __getitem__(self, index: int) -> Game:
        """Return a game."""


class OneGame:
    """A single problem."""

    count = 1

    def __init__(self, problem: Problem, reference: float) -> None:
        self.frame = problem_frame(problem)
        self._game = Game(problem, reference, self.frame)

    def __getitem__(self, index: int) -> Game:
        """Return the game."""
        return self._game


class SuiteGames:
    """The tasks of a suite, each built when it is first played; no limit of evaluations."""

    def __init__(self, specs: tuple[TaskSpec, ...], largest: tuple[int, int] | None) -> None:
        self.count = len(specs)
        self.frame = suite_frame(specs, largest)
        self._specs = specs
        self._kept = lru_cache(maxsize=KEPT_TASKS)(self._build)

    def __getitem__(self, index: int) -> Game:
        """Return the game of a task."""
        return self._kept(index)

    def _build(self, index: int) -> Game:
        from lts_bench.task import Task

        problem = LocalProblem.of(Task(self._specs[index]))
        return Game(problem, reference_goodput(problem), self.frame, self._specs[index].name)


def choose_games(
    problem: Problem | None,
    task: Scorer | str | None,
    suite: Suite | None,
    reference: float | None,
    largest: tuple[int, int] | None,
) -> Games:
    """Return the games of an environment's arguments.

    Raises:
        InputError: not exactly one of problem, task and suite is given, or an option that doesn't go with it.
    """
    if suite is None:
        if largest is not None:
            raise InputError("belongs to a suite", field="largest", value=largest)
        chosen = resolve_problem(problem, task)
        return OneGame(chosen, resolve_reference(chosen, reference))
    if problem is not None or task is not None:
        raise InputError("give either problem= or task= or suite=", field="suite")
    if reference is not None:
        raise InputError("each task of a suite has its own", field="reference", value=reference)
    if largest is not None:
        check_largest(largest)
    specs = load_suite(suite).tasks if isinstance(suite, str | Path) else tuple(suite)
    if not specs:
        raise InputError("has no tasks", field="suite")
    return SuiteGames(specs, largest)
