"""Proximal policy optimisation with Tianshou, one decision a step, illegal choices masked."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from lts_bench.agent import Agent
from lts_bench.budget import BudgetExhausted
from lts_bench.envs.sequential import ShardVectorEnv
from lts_bench.problem import Problem


@contextlib.contextmanager
def _interpreted_numba() -> Iterator[None]:
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


with _interpreted_numba():
    from tianshou.algorithm.modelfree.ppo import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
    from tianshou.env import BaseVectorEnv
    from tianshou.utils.net.common import ActionReprNet
    from tianshou.utils.torch_utils import policy_within_training_step


Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class PPOAgent(Agent):
    """PPO (arXiv 1707.06347) from scratch on the sequential environment with a masked actor.

    ``exploration`` is the number of decisions an episode that are drawn uniformly: with so few episodes a policy that
    commits early would else propose one strategy again and again.
    """

    name, version, track, anytime = "ppo", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "episodes": 32,
        "epochs": 4,
        "minibatch": 256,
        "learning_rate": 3e-3,
        "entropy": 0.05,
        "exploration": 1.0,
        "hidden": 64,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Play batches of episodes and learn from each until the budget is spent."""
        _seed(int(rng.integers(2**31)))
        env = ShardVectorEnv(self.parameters["episodes"], problem)
        algorithm = self._algorithm(env)
        buffer = VectorReplayBuffer(env.num_envs * env.episodes.length, env.num_envs)
        collector: Collector[CollectStats] = Collector(algorithm, BatchedEnv(env), buffer, raise_on_nan_in_buffer=False)
        collector.reset()
        with contextlib.suppress(BudgetExhausted), policy_within_training_step(algorithm.policy):
            while problem.remaining:
                collector.collect(n_episode=env.num_envs)
                algorithm.update(buffer, batch_size=self.parameters["minibatch"], repeat=self.parameters["epochs"])
                collector.reset_buffer()

    def _algorithm(self, env: ShardVectorEnv) -> PPO:
        inputs, hidden = env.episodes.inputs, self.parameters["hidden"]
        uniform = min(1.0, self.parameters["exploration"] / env.episodes.length)
        policy = MaskedPolicy(
            actor=MaskedActor(inputs, hidden, env.episodes.choices, uniform),
            dist_fn=lambda probabilities: torch.distributions.Categorical(probabilities, validate_args=False),
            action_space=env.single_action_space,
            observation_space=env.single_observation_space,
            action_scaling=False,
            action_bound_method=None,
        )
        return PPO(
            policy=policy,
            critic=Critic(inputs, hidden),
            optim=AdamOptimizerFactory(lr=self.parameters["learning_rate"]),
            ent_coef=self.parameters["entropy"],
            max_grad_norm=0.5,
            gamma=1.0,
        )


class MaskedPolicy(ProbabilisticActorPolicy):
    """Samples while it plays; an update brings its actions, and drawing others would double its time."""

    def forward(self, batch: Any, state: Any = None) -> Any:
        """Return the distribution and an action of each row."""
        probabilities, state = self.actor(batch.obs, state)
        dist = self.dist_fn(probabilities)
        return Batch(act=batch.act if "act" in batch else dist.sample(), dist=dist, state=state)


class MaskedActor(ActionReprNet[Any]):
    """Probabilities of the choices: a softmax over the legal ones, mixed with a uniform draw so that no choice dies."""

    def __init__(self, inputs: int, hidden: int, choices: int, uniform: float) -> None:
        super().__init__()
        self.layers = _layers(inputs, hidden, choices)
        self.uniform = uniform

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """Return probabilities (n, choices) and the state."""
        legal = torch.as_tensor(obs.mask, dtype=torch.bool)
        learned = self.layers(torch.as_tensor(obs.obs)).masked_fill(~legal, -torch.inf).softmax(dim=1)
        return (1.0 - self.uniform) * learned + self.uniform * legal / legal.sum(dim=1, keepdim=True), state


class Critic(nn.Module):
    """The value of an unfinished strategy."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.layers = _layers(inputs, hidden, 1)

    def forward(self, obs: Any) -> torch.Tensor:
        """Return values (n, 1)."""
        values: torch.Tensor = self.layers(torch.as_tensor(obs.obs))
        return values


class BatchedEnv(BaseVectorEnv):
    """Shows a native vector environment to Tianshou, which else steps workers one by one."""

    def __init__(self, env: ShardVectorEnv) -> None:
        self.env, self.env_num = env, env.num_envs
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
        observations, _ = self.env.reset(options={"reset_mask": which})
        return _rows(observations, which), _no_infos(int(which.sum()))

    def step(self, action: Any, id: Any = None) -> Step:  # noqa: A002 (Tianshou's name)
        """Step all episodes; they run in lockstep, so Tianshou never asks for some."""
        observations, rewards, over, truncated, _ = self.env.step(np.asarray(action))
        everyone = np.ones(self.env_num, dtype=np.bool_)
        return _rows(observations, everyone), rewards, over, truncated, _no_infos(self.env_num)

    def seed(self, seed: Any = None) -> list[list[int] | None]:
        """Nothing here is random."""
        return [None] * self.env_num

    def close(self) -> None:
        """Nothing is open."""
        self.is_closed = True


def _rows(observations: dict[str, np.ndarray], which: np.ndarray) -> np.ndarray:
    """Return batched observations as Tianshou takes them: an array of dictionaries."""
    rows = [{name: values[i] for name, values in observations.items()} for i in np.flatnonzero(which)]
    return np.array(rows, dtype=object)


def _no_infos(count: int) -> np.ndarray:
    return np.array([{} for _ in range(count)], dtype=object)


def _layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)
    )


def _seed(seed: int) -> None:
    """Seed what Tianshou and torch draw from; one thread, so that sums don't depend on the machine's load."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (Tianshou draws from the global state)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
