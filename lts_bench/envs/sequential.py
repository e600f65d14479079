"""``lts/Shard-v0``: one decision a step, the degrees first; a reward when the strategy is complete."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from lts_bench.envs.common import resolve_problem, resolve_reference
from lts_bench.envs.episodes import Episodes
from lts_bench.problem import Problem, Scorer

Observation = dict[str, np.ndarray]


class ShardEnv(gymnasium.Env[Observation, np.int64]):
    """One strategy an episode; see `Episodes` for the observation and `rewards` for the reward.

    ``info["action_mask"]`` is the observation's mask. The last step's info holds the answer. An action outside the mask
    is taken as it is: the strategy is then not legal, and costs its evaluation. When the problem's budget is spent,
    `BudgetExhausted` leaves `step`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (declared so by Gymnasium)

    def __init__(
        self, problem: Problem | None = None, task: Scorer | str | None = None, reference: float | None = None
    ) -> None:
        """Play a problem, or a task without a limit of evaluations.

        Args:
            problem: counts and scores.
            task: a task or its name, instead of a problem.
            reference: goodput per NPU that earns 1, by default the task's feature ``reference_goodput_per_npu``.
        """
        self.problem = resolve_problem(problem, task)
        self.episodes = Episodes(self.problem, 1, resolve_reference(self.problem, reference))
        self.observation_space = self.episodes.observation_space
        self.action_space = self.episodes.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Any]:
        """Begin a new strategy; nothing here is random."""
        super().reset(seed=seed)
        self.episodes.reset(np.array([True]))
        return self._observe()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the next decision."""
        earned, over = self.episodes.step(np.array([action]))
        observation, info = self._observe()
        if over[0]:
            answer = self.episodes.answers[0]
            info |= {name: answer[name] for name in answer.dtype.names or ()}
            info["vector"] = self.episodes.vectors[0].copy()
        return observation, float(earned[0]), bool(over[0]), False, info

    def _observe(self) -> tuple[Observation, dict[str, Any]]:
        batch = self.episodes.observe()
        return {name: values[0] for name, values in batch.items()}, {"action_mask": batch["mask"][0].copy()}


class ShardVectorEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """Many episodes of `ShardEnv` side by side; those that end in a step are scored in one call.

    Episodes that are over stay over until ``reset(options={"reset_mask": …})`` begins them anew.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        problem: Problem | None = None,
        task: Scorer | str | None = None,
        reference: float | None = None,
    ) -> None:
        """Play ``num_envs`` episodes of a problem or a task; see `ShardEnv`."""
        self.num_envs = num_envs
        self.problem = resolve_problem(problem, task)
        self.episodes = Episodes(self.problem, num_envs, resolve_reference(self.problem, reference))
        self.single_observation_space = self.episodes.observation_space
        self.single_action_space = self.episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all episodes, or those of ``options["reset_mask"]``, anew."""
        super().reset(seed=seed)
        which = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        self.episodes.reset(which)
        return self._observe()

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take the next decision in every episode that is not over."""
        earned, over = self.episodes.step(np.asarray(actions))
        observations, info = self._observe()
        info |= {"answers": self.episodes.answers.copy(), "_answers": over.copy()}
        return observations, earned, over, np.zeros(self.num_envs, dtype=np.bool_), info

    def _observe(self) -> tuple[Observation, dict[str, Any]]:
        observations = self.episodes.observe()
        return observations, {"action_mask": observations["mask"].copy()}
