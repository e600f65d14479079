"""A batch of episodes: which game each plays, how far it is, and what its strategy is worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from lts_bench.answer import ANSWER
from lts_bench.envs.common import FEATURE_LIMIT, rewards
from lts_bench.envs.game import Game
from lts_bench.envs.games import Games

Rows = NDArray[np.int64]
Observations = dict[str, np.ndarray]


class Batch(ABC):
    """The state of n episodes; the environments are thin shells around it.

    Observations are kept and changed where an episode moves, so that a step writes little however wide the masks are.

    Attributes:
        games: what may be played; with more than one, every reset draws one for each episode it begins.
        frame: the room of observations and actions.
        length: decisions of the longest game.
        vectors: (n, length) the choices so far, 0 where open.
        positions: (n,) decisions taken.
        lengths: (n,) decisions to take.
        answers: (n,) ANSWER rows of the strategies scored last, where an episode has ended.
        ended: rows of the episodes that the last step ended.
        names: (n,) of the tasks being played, None where a problem tells none.
        observations: ``obs`` (n, …) float32 and ``mask`` (n, …) int8.
        observation_space: of one episode.
        action_space: of one episode.
    """

    action_space: spaces.Space[Any]

    def __init__(self, games: Games, count: int) -> None:
        """Lay out n episodes; a single game begins at once, for nothing has to be drawn."""
        self.games, self.frame, self.count = games, games.frame, count
        self.length = len(self.frame.sizes)
        self.vectors = np.zeros((count, self.length), dtype=np.int64)
        self.positions, self.lengths = np.zeros((2, count), dtype=np.int64)
        self.answers = np.zeros(count, dtype=ANSWER)
        self.ended: Rows = np.zeros(0, dtype=np.int64)
        self.names = np.full(count, None, dtype=object)
        inputs, mask_size = self._widths()
        self.observations: Observations = {
            "obs": np.zeros((count, inputs), dtype=np.float32),
            "mask": np.zeros((count, mask_size), dtype=np.int8),
        }
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "obs": spaces.Box(-FEATURE_LIMIT, FEATURE_LIMIT, (inputs,), np.float32),
                "mask": spaces.MultiBinary(mask_size),
            }
        )
        self._drawn = np.zeros(count, dtype=np.int64)
        self._playing: dict[int, Game] = {}
        self._generators: dict[int, np.random.Generator] = {}
        if games.count == 1:
            self._playing[0] = games[0]
            self.reset(np.ones(count, dtype=np.bool_))

    @property
    def over(self) -> NDArray[np.bool_]:
        """(n,) which episodes are complete, or have not begun."""
        over: NDArray[np.bool_] = self.positions == self.lengths
        return over

    def game(self, row: int) -> Game:
        """Return what an episode plays.

        Raises:
            ResetNeeded: nothing has been drawn yet.
        """
        if not self._playing:
            raise ResetNeeded("the task is drawn when the environment is reset")
        return self._playing[int(self._drawn[row])]

    def reset(self, which: NDArray[np.bool_], seed: int | None = None) -> None:
        """Begin the marked episodes (n,) anew.

        Args:
            which: the episodes.
            seed: episode i draws its games from ``seed + i``; None goes on drawing.
        """
        rows = np.flatnonzero(which)
        if self.games.count > 1:
            self._draw(rows, seed)
        self.vectors[rows] = 0
        self.positions[rows] = 0
        for game, members in self._by_game(rows):
            self.lengths[members], self.names[members] = game.length, game.name
            self._begin(game, members)

    @abstractmethod
    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Act in every episode that is not over and score, in one call a game, the strategies now complete.

        Returns:
            rewards (n,), 0 before the end, and which episodes are over (n,).
        """

    @abstractmethod
    def _widths(self) -> tuple[int, int]:
        """Return the lengths of ``obs`` and ``mask``."""

    @abstractmethod
    def _begin(self, game: Game, rows: Rows) -> None:
        """Write the first observations of episodes of a game."""

    def _draw(self, rows: Rows, seed: int | None) -> None:
        for row in rows.tolist():
            if seed is not None or row not in self._generators:
                self._generators[row] = np_random(None if seed is None else seed + row)[0]
            index = int(self._generators[row].integers(self.games.count))
            if index not in self._playing:
                self._playing[index] = self.games[index]
            self._drawn[row] = index
        in_play = set(self._drawn.tolist())
        self._playing = {index: game for index, game in self._playing.items() if index in in_play}

    def _by_game(self, rows: Rows) -> Iterator[tuple[Game, Rows]]:
        """Split rows into those of each game."""
        drawn = self._drawn[rows]
        order = np.argsort(drawn, kind="stable")
        for members in np.split(rows[order], np.flatnonzero(np.diff(drawn[order])) + 1):
            if len(members):
                yield self.game(members[0]), members

    def _end(self, rows: Rows) -> NDArray[np.float64]:
        """Score the complete strategies of the given rows; return the rewards (n,)."""
        self.ended = rows
        earned = np.zeros(self.count)
        for game, members in self._by_game(rows):
            self.answers[members] = game.problem.evaluate(self.vectors[members, : game.length])
            earned[members] = rewards(self.answers[members], game.reference)
        return earned
