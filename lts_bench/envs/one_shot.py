"""``lts/ShardOneShot-v0``: the whole strategy in one action."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lts_bench.envs.common import FEATURE_LIMIT, resolve_problem, resolve_reference, rewards, scaled_features
from lts_bench.problem import Problem, Scorer


class ShardOneShotEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Every episode is one step: an action has one choice for each decision, the observation is the task's features.

    No mask can tell which choices the degrees in the same action allow, so choices that are not legal under them are
    replaced as `Space.repair` does; ``info["vector"]`` is what was scored.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (declared so by Gymnasium)

    def __init__(
        self, problem: Problem | None = None, task: Scorer | str | None = None, reference: float | None = None
    ) -> None:
        """Play a problem, or a task without a limit of evaluations; see `ShardEnv`."""
        self.problem = resolve_problem(problem, task)
        self.reference = resolve_reference(self.problem, reference)
        self._features = scaled_features(self.problem.features)
        self.observation_space = spaces.Box(-FEATURE_LIMIT, FEATURE_LIMIT, self._features.shape, np.float32)
        self.action_space = spaces.MultiDiscrete(self.problem.space.sizes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; nothing here is random."""
        super().reset(seed=seed)
        return self._features.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Score a strategy."""
        vectors = self.problem.space.repair(np.asarray(action, dtype=np.int64)[np.newaxis])
        answers = self.problem.evaluate(vectors)
        info = {name: answers[0][name] for name in answers.dtype.names or ()}
        info["vector"] = vectors[0]
        return self._features.copy(), float(rewards(answers, self.reference)[0]), True, False, info
