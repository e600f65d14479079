"""``lts/ShardOneShot-v0``: the whole strategy in one action."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lts_bench.envs.batch import Batch, Rows
from lts_bench.envs.game import Game
from lts_bench.envs.games import Games
from lts_bench.envs.shells import BatchedEnv, SingleEnv


class OneShots(Batch):
    """Strategies in one step each.

    ``obs`` has the task's features. ``mask`` has, decision after decision, the choices that are legal under some
    degrees. Which of them are legal together depends on the degrees in the same action, and no mask can tell: a
    strategy that is not legal is scored as such and costs its evaluation.
    """

    def __init__(self, games: Games, count: int) -> None:
        self.action_space = spaces.MultiDiscrete(np.array(games.frame.sizes))
        super().__init__(games, count)

    def _widths(self) -> tuple[int, int]:
        return self.frame.features, sum(self.frame.sizes)

    def _begin(self, game: Game, rows: Rows) -> None:
        self.observations["obs"][rows] = game.features
        self.observations["mask"][rows] = game.one_shot_mask

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Score the strategies (n, length) of all episodes that are not over."""
        running = np.flatnonzero(~self.over)
        self.vectors[running] = actions[running]
        self.positions[running] = self.lengths[running]
        return self._end(running), self.over


class ShardOneShotEnv(SingleEnv):
    """Every episode is one step: an action has one choice for each decision; see `OneShots` and `rewards`.

    ``Space.repair`` of the problem's space makes any action legal, ``Space.mask(degrees)`` tells the legal choices
    under given degrees.
    """

    batch_class = OneShots
    episodes: OneShots


class ShardOneShotVectorEnv(BatchedEnv):
    """Many episodes of `ShardOneShotEnv`, scored in one call."""

    batch_class = OneShots
    episodes: OneShots
