"""Episodes that build a strategy a decision at a time."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lts_bench.envs.batch import Batch, Rows
from lts_bench.envs.game import Game
from lts_bench.envs.games import Games


class Episodes(Batch):
    """Strategies under construction.

    ``obs`` has the task's features, the decisions so far ((choice + 1) / choices of that decision, 0 while open) and
    the position one-hot. ``mask`` has the choices that are legal now, given the degrees, which are decided first; where
    the episode is over, the degrees.

    Attributes:
        widest_operator: the size of the largest decision but the degrees.
    """

    def __init__(self, games: Games, count: int) -> None:
        self.widest_operator = games.frame.widest_operator
        self.action_space = spaces.Discrete(games.frame.widest)
        super().__init__(games, count)

    def _widths(self) -> tuple[int, int]:
        return self.frame.features + 2 * self.length, self.frame.widest

    def _begin(self, game: Game, rows: Rows) -> None:
        obs, features = self.observations["obs"], self.frame.features
        obs[rows, :features] = game.features
        obs[rows, features:] = 0.0
        obs[rows, features + self.length] = 1.0
        self._show_degrees(game, rows)

    def _show_degrees(self, game: Game, rows: Rows) -> None:
        mask = self.observations["mask"]
        mask[rows] = np.arange(mask.shape[1]) < game.sizes[0]

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Take one decision (n,) in every episode that is not over."""
        running = np.flatnonzero(~self.over)
        positions = self.positions[running]
        self.vectors[running, positions] = actions[running]
        self.positions[running] += 1
        for game, rows in self._by_game(running):
            self._show_decision(game, rows)
        over = self.over
        return self._end(running[over[running]]), over

    def _show_decision(self, game: Game, rows: Rows) -> None:
        """Write what the last decision of the rows changes in their observations."""
        obs, mask = self.observations["obs"], self.observations["mask"]
        now = self.positions[rows]
        decided, position = self.frame.features, self.frame.features + self.length
        obs[rows, decided + now - 1] = np.minimum((self.vectors[rows, now - 1] + 1) / game.sizes[now - 1], 1.0)
        obs[rows, position + now - 1] = 0.0
        over = now == game.length
        self._show_degrees(game, rows[over])
        rows, now = rows[~over], now[~over]
        obs[rows, position + now] = 1.0
        mask[rows[now == 1], self.widest_operator :] = 0
        mask[rows, : self.widest_operator] = game.operator_masks(self.vectors[rows, 0], now)

    def operator_masks(self) -> NDArray[np.bool_]:
        """Return the legal choices of every episode's next operator (n, widest operator); all where none is next.

        Only the degrees have many choices: this is narrow however many there are.
        """
        none_next = self.over | (self.positions == 0)
        masks: NDArray[np.bool_] = self.observations["mask"][:, : self.widest_operator].astype(np.bool_)
        masks[none_next] = True
        return masks
