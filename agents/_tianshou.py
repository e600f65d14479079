"""What the agents on Tianshou share: the environment in its terms, the tokens that networks read, seeds."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from lts_bench.envs.episodes import Episodes
from lts_bench.envs.sequential import ShardVectorEnv
from lts_bench.space.decisions import Space


@contextlib.contextmanager
def interpreted_numba() -> Iterator[None]:
    """Let what is imported meanwhile run without numba's compiler.

    Compiling Tianshou's small functions takes some three seconds a process and saves less in a run of this size. Only
    the functions decorated meanwhile are concerned.
    """
    from numba.core import config

    settings = vars(config)
    before = settings["DISABLE_JIT"]
    settings["DISABLE_JIT"] = 1
    try:
        yield
    finally:
        settings["DISABLE_JIT"] = before


with interpreted_numba():
    from tianshou.env import BaseVectorEnv


Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Tokens:
    """Unfinished strategies as small integers, each of which the networks learn a vector for.

    A row has the position, the values of the degrees and the operators' choices; 0 is what is still open. Degrees are
    told by their values, never by their index: thousands of them share a few dozen tokens.

    Attributes:
        degrees: (degrees, 7) tokens of all degrees.
        count: tokens there are.
        width: tokens a row.
    """

    def __init__(self, space: Space) -> None:
        values = [np.unique(column, return_inverse=True) for column in space.degrees.T]
        sizes = [len(found) for found, _ in values] + [len(space.sizes) + 1] + space.sizes[1:].tolist()
        *first, self.count = np.cumsum([1, *sizes]).tolist()
        self.degrees = np.stack([start + ranks for start, (_, ranks) in zip(first, values, strict=False)], axis=1)
        self._position, *operators = first[len(values) :]
        self._operators = np.array(operators, dtype=np.int64)
        self.width = len(first)

    def of(self, episodes: Episodes) -> np.ndarray:
        """Return the tokens (n, width) of a batch of episodes."""
        positions = episodes.positions[:, np.newaxis]
        degrees = np.where(positions > 0, self.degrees[episodes.vectors[:, 0]], 0)
        decided = np.arange(1, episodes.length) < positions
        operators = np.where(decided, self._operators + episodes.vectors[:, 1:], 0)
        return np.concatenate((degrees, self._position + positions, operators), axis=1)


class BatchedEnv(BaseVectorEnv):
    """Shows a native vector environment to Tianshou, which else steps workers one by one.

    An observation is a row of integers: the tokens, then the mask of the next operator.
    """

    def __init__(self, env: ShardVectorEnv) -> None:
        self.env, self.env_num, self.episodes = env, env.num_envs, env.episodes
        self.tokens = Tokens(env.problem.space)
        self.is_async, self.is_closed = False, False

    def __getattribute__(self, key: str) -> Any:
        """Look attributes up here, not in workers, of which there are none."""
        return object.__getattribute__(self, key)

    @property
    def action_space(self) -> list[Any]:
        """The action space of each episode."""
        return [self.env.single_action_space] * self.env_num

    def reset(self, env_id: Any = None, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Begin all or some episodes anew and return their observations."""
        which = np.zeros(self.env_num, dtype=np.bool_)
        which[self._wrap_id(env_id)] = True
        self.episodes.reset(which)
        return self._observe()[which], _no_infos(int(which.sum()))

    def step(self, action: Any, id: Any = None) -> Step:  # noqa: A002 (Tianshou's name)
        """Step all episodes; they run in lockstep, so Tianshou never asks for some."""
        rewards, over = self.episodes.step(np.asarray(action))
        return self._observe(), rewards, over, np.zeros_like(over), _no_infos(self.env_num)

    def seed(self, seed: Any = None) -> list[list[int] | None]:
        """Nothing here is random."""
        return [None] * self.env_num

    def close(self) -> None:
        """Nothing is open."""
        self.is_closed = True

    def _observe(self) -> np.ndarray:
        return np.concatenate((self.tokens.of(self.episodes), self.episodes.operator_masks()), axis=1)


def _no_infos(count: int) -> np.ndarray:
    return np.array([{} for _ in range(count)], dtype=object)


def network(tokens: Tokens, hidden: int, outputs: int) -> nn.Sequential:
    """Return a network from tokens (n, width) to outputs near zero (n, outputs)."""
    embedding, last = nn.EmbeddingBag(tokens.count, hidden, mode="sum"), nn.Linear(hidden, outputs)
    nn.init.normal_(embedding.weight, std=tokens.width**-0.5)
    nn.init.normal_(last.weight, std=0.01)
    return nn.Sequential(embedding, nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), last)


def seed_everything(seed: int) -> None:
    """Seed what Tianshou and torch draw from; one thread, so that sums don't depend on the machine's load."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (Tianshou draws from the global state)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
