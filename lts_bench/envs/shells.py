"""Gymnasium's interface around a batch of episodes: one of them, or many side by side."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from lts_bench.envs.batch import Batch, Observations, Rows
from lts_bench.envs.games import Suite, choose_games
from lts_bench.envs.rendering import RENDER_MODES, Picture, check_render_mode, render
from lts_bench.problem import Problem, Scorer
from lts_bench.specs.failure import InputError

METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}


class SingleEnv(gymnasium.Env[Observations, Any]):
    """One episode at a time.

    ``info["action_mask"]`` is the observation's mask, and of a suite ``info["task"]`` the task's name. The last step's
    info has the fields of the answer, and in ``vector`` what was scored. When a problem's budget is spent,
    `BudgetExhausted` leaves `step`.
    """

    metadata = METADATA
    batch_class: ClassVar[type[Batch]]

    def __init__(
        self,
        problem: Problem | None = None,
        task: Scorer | str | None = None,
        *,
        suite: Suite | None = None,
        reference: float | None = None,
        largest: tuple[int, int] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Play a problem, or a task or the tasks of a suite without a limit of evaluations.

        Args:
            problem: counts and scores.
            task: a task or its name, instead of a problem.
            suite: a built-in suite, a YAML file or tasks, instead of a problem: each reset draws one of its tasks, and
                observations and actions have room for the largest.
            reference: goodput per NPU that earns 1, by default the task's feature ``reference_goodput_per_npu``.
            largest: of a suite, a bound (degrees, operators) of its tasks, where listing them all would take too long.
            render_mode: ``ansi`` or ``rgb_array``.
        """
        self.render_mode = check_render_mode(render_mode)
        self.episodes = self.batch_class(choose_games(problem, task, suite, reference, largest), 1)
        self.observation_space = self.episodes.observation_space
        self.action_space = self.episodes.action_space

    @property
    def problem(self) -> Problem:
        """The problem being played."""
        return self.episodes.game(0).problem

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin a new strategy; of a suite, of a task that is drawn."""
        super().reset(seed=seed)
        self.episodes.reset(np.array([True]), seed)
        return self._observe()

    def step(self, action: Any) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        earned, over = self.episodes.step(np.asarray(action)[np.newaxis])
        observation, info = self._observe()
        if len(self.episodes.ended):
            info |= _plain(self.episodes.answers[0])
            info["vector"] = self.episodes.vectors[0].copy()
        return observation, float(earned[0]), bool(over[0]), False, info

    def render(self) -> Picture | None:
        """Return the strategy so far as ``render_mode`` says."""
        return None if self.render_mode is None else render(self.render_mode, self.episodes, 0)

    def _observe(self) -> tuple[Observations, dict[str, Any]]:
        observation = {name: values[0].copy() for name, values in self.episodes.observations.items()}
        info: dict[str, Any] = {"action_mask": observation["mask"].copy()}
        if self.episodes.names[0] is not None:
            info["task"] = self.episodes.names[0]
        return observation, info


class BatchedEnv(VectorEnv[Observations, Any, np.ndarray]):
    """Many episodes side by side; those that end in a step are scored in one call a task.

    Episodes that are over stay over until ``reset(options={"reset_mask": …})`` begins them anew. Infos are those of the
    single environment as arrays, with the mask ``_NAME`` beside each ``NAME``. Of a suite, every episode has a task of
    its own, and episode i draws the same tasks from ``seed`` as a single environment from ``seed + i``.
    """

    metadata = METADATA | {"autoreset_mode": AutoresetMode.DISABLED}
    batch_class: ClassVar[type[Batch]]

    def __init__(
        self,
        num_envs: int = 1,
        problem: Problem | None = None,
        task: Scorer | str | None = None,
        *,
        suite: Suite | None = None,
        reference: float | None = None,
        largest: tuple[int, int] | None = None,
        render_mode: str | None = None,
        copy: bool = True,
    ) -> None:
        """Play ``num_envs`` episodes.

        Args:
            num_envs: episodes.
            problem: as in `SingleEnv`.
            task: likewise.
            suite: likewise.
            reference: likewise.
            largest: likewise.
            render_mode: likewise.
            copy: False makes `reset` and `step` return the arrays of observations that the next call changes.
        """
        self.num_envs, self.copy = num_envs, copy
        self.render_mode = check_render_mode(render_mode)
        self.episodes = self.batch_class(choose_games(problem, task, suite, reference, largest), num_envs)
        self.single_observation_space = self.episodes.observation_space
        self.single_action_space = self.episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def problem(self) -> Problem:
        """The problem that all episodes play; of a suite, that of the first."""
        return self.episodes.game(0).problem

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin all episodes, or those of ``options["reset_mask"]`` (num_envs,), anew."""
        super().reset(seed=seed)
        which = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        if np.shape(which) != (self.num_envs,) or np.asarray(which).dtype != np.bool_:
            raise InputError(f"must be {self.num_envs} booleans", field="reset_mask", value=which)
        self.episodes.reset(which, seed)
        return self._observe(which)

    def step(self, actions: np.ndarray) -> tuple[Observations, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take an action in every episode that is not over."""
        earned, over = self.episodes.step(np.asarray(actions))
        observations, infos = self._observe(np.ones(self.num_envs, dtype=np.bool_))
        if len(self.episodes.ended):
            infos |= self._answers(self.episodes.ended)
        return observations, earned, over, np.zeros(self.num_envs, dtype=np.bool_), infos

    def render(self) -> tuple[Picture, ...] | None:
        """Return each episode's strategy so far as ``render_mode`` says."""
        if self.render_mode is None:
            return None
        return tuple(render(self.render_mode, self.episodes, row) for row in range(self.num_envs))

    def _observe(self, which: NDArray[np.bool_]) -> tuple[Observations, dict[str, Any]]:
        kept = self.episodes.observations
        observations = {name: values.copy() if self.copy else values for name, values in kept.items()}
        infos = {"action_mask": observations["mask"], "_action_mask": which.copy()}
        if self.episodes.names[0] is not None:
            infos |= {"task": self.episodes.names.copy(), "_task": which.copy()}
        return observations, infos

    def _answers(self, ended: Rows) -> dict[str, np.ndarray]:
        """The fields of the answers to the strategies that have just been scored, zero elsewhere."""
        which = np.zeros(self.num_envs, dtype=np.bool_)
        which[ended] = True
        answers, vectors = np.zeros_like(self.episodes.answers), np.zeros_like(self.episodes.vectors)
        answers[ended], vectors[ended] = self.episodes.answers[ended], self.episodes.vectors[ended]
        fields = {name: answers[name].copy() for name in answers.dtype.names or ()} | {"vector": vectors}
        return fields | {f"_{name}": which.copy() for name in fields}


def _plain(answer: np.void) -> dict[str, Any]:
    """Return the fields of an answer: booleans, floats, and the violation (3,) as an array."""
    fields = {name: answer[name] for name in answer.dtype.names or ()}
    return {name: value.copy() if value.ndim else value.item() for name, value in fields.items()}
