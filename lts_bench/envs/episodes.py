"""A batch of episodes, each building one strategy a decision at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from lts_bench.answer import ANSWER
from lts_bench.envs.common import FEATURE_LIMIT, rewards, scaled_features
from lts_bench.problem import Problem


class Episodes:
    """The state of n episodes and its observations; the environments are thin shells around it.

    An observation is ``{"obs": …, "mask": …}``. ``obs`` is float32: the task's features, the decisions so far
    ((choice + 1) / choices of that decision, 0 while open), the position one-hot. ``mask`` is int8: the choices that
    are legal now, given the degrees, which are decided first.

    Attributes:
        inputs: length of ``obs``.
        choices: length of ``mask``, the size of the largest decision.
        widest_operator: the size of the largest decision but the degrees.
        observation_space: of one episode.
        action_space: of one episode: the index of a choice.
        answers: ANSWER rows of the strategies scored last, where an episode has ended.
    """

    def __init__(self, problem: Problem, count: int, reference: float) -> None:
        self.problem, self.count, self.reference = problem, count, reference
        self.sizes = problem.space.sizes
        self.length = len(self.sizes)
        self._features = np.tile(scaled_features(problem.features), (count, 1))
        self._operator_masks: dict[int, np.ndarray] = {}
        self.inputs = self._features.shape[1] + 2 * self.length
        self.choices = int(self.sizes.max())
        self.widest_operator = int(self.sizes[1:].max(initial=0))
        self.action_space = spaces.Discrete(self.choices)
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "obs": spaces.Box(-FEATURE_LIMIT, FEATURE_LIMIT, (self.inputs,), np.float32),
                "mask": spaces.MultiBinary(self.choices),
            }
        )
        self.vectors = np.zeros((count, self.length), dtype=np.int64)
        self.positions = np.zeros(count, dtype=np.int64)
        self.answers = np.zeros(count, dtype=ANSWER)

    def reset(self, which: np.ndarray) -> None:
        """Begin the episodes marked in a boolean array (n,) anew."""
        self.vectors[which] = 0
        self.positions[which] = 0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take one decision in every episode that is not over and score, in one call, those that are now complete.

        Args:
            actions: choices (n,).

        Returns:
            rewards (n,), 0 before the end, and which episodes are over (n,).
        """
        running = np.flatnonzero(self.positions < self.length)
        self.vectors[running, self.positions[running]] = actions[running]
        self.positions[running] += 1
        complete = running[self.positions[running] == self.length]
        earned = np.zeros(self.count)
        if len(complete):
            self.answers[complete] = self.problem.evaluate(self.vectors[complete])
            earned[complete] = rewards(self.answers[complete], self.reference)
        return earned, self.positions == self.length

    def observe(self) -> dict[str, np.ndarray]:
        """Return the observations of all episodes, (n, …) each."""
        decided = np.arange(self.length) < self.positions[:, np.newaxis]
        progress = np.where(decided, np.minimum((self.vectors + 1) / self.sizes, 1.0), 0.0)
        position = np.arange(self.length) == self.positions[:, np.newaxis]
        obs = np.concatenate((self._features, progress, position), axis=1, dtype=np.float32)
        return {"obs": obs, "mask": self.masks()}

    def masks(self) -> np.ndarray:
        """Return the legal choices of every episode's next decision as int8 (n, largest size); all where it is over."""
        masks = np.zeros((self.count, self.choices), dtype=np.int8)
        masks[:, : self.widest_operator] = self.operator_masks()
        at_degrees = self.positions % self.length == 0
        masks[at_degrees] = np.arange(self.choices) < self.sizes[0]
        return masks

    def operator_masks(self) -> np.ndarray:
        """Return the legal choices of every episode's next operator (n, widest operator); all where none is next.

        Only the degrees have many choices: this is narrow however many there are.
        """
        masks = np.ones((self.count, self.widest_operator), dtype=np.bool_)
        for row in np.flatnonzero((self.positions > 0) & (self.positions < self.length)):
            masks[row] = self._masks_under(int(self.vectors[row, 0]))[self.positions[row] - 1]
        return masks

    def _masks_under(self, degrees: int) -> np.ndarray:
        """Return the masks of all operators; under degrees that don't exist, all choices that do."""
        if degrees not in self._operator_masks:
            exist = np.arange(self.widest_operator) < self.sizes[1:, np.newaxis]
            known = 0 <= degrees < self.sizes[0]
            masks = self.problem.space.mask(degrees)[1:, : self.widest_operator] if known else exist
            self._operator_masks[degrees] = masks.copy()
        return self._operator_masks[degrees]
