"""Deep Q-learning with Tianshou, one decision a step, illegal choices masked."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import nn

from lts_bench.agent import Agent
from lts_bench.agents._adam import Adam
from lts_bench.agents._tianshou import BatchedEnv, Tokens, interpreted_numba, network, seed_everything
from lts_bench.budget import BudgetExhausted
from lts_bench.envs.sequential import ShardVectorEnv
from lts_bench.problem import Problem

with interpreted_numba():
    from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
    from tianshou.algorithm.optim import TorchOptimizerFactory
    from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
    from tianshou.utils.torch_utils import policy_within_training_step


class DQNAgent(Agent):
    """Double DQN (arXiv 1509.06461) from scratch on the sequential environment with masked choices.

    The first batch of episodes is drawn at random; then ``exploration`` decisions an episode are, and the others have
    the highest value. Returns are those of the next ``horizon`` decisions, as only the last one of an episode is
    rewarded.

    Tuned on four to seven tasks of the suite train at e1k, one seed, six settings, 39,000 evaluations: learning rates
    0.003 and 0.01, horizons 4 and 32, exploration 1 and 2, 8 and 16 updates; the higher rate and the longer horizon
    were better.
    """

    name, version, track, anytime = "dqn", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "episodes": 16,
        "updates": 8,
        "minibatch": 128,
        "learning_rate": 1e-2,
        "exploration": 2.0,
        "horizon": 32,
        "lag": 50,
        "remembered": 2_000,
        "hidden": 64,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Play batches of episodes and learn from all that are remembered until the budget is spent."""
        seed_everything(int(rng.integers(2**31)))
        env = BatchedEnv(ShardVectorEnv(self.parameters["episodes"], problem))
        algorithm = self._algorithm(env)
        buffer = VectorReplayBuffer(self.parameters["remembered"] * env.episodes.length, env.env_num)
        collector: Collector[CollectStats] = Collector(
            algorithm, env, buffer, exploration_noise=True, raise_on_nan_in_buffer=False
        )
        collector.reset()
        with contextlib.suppress(BudgetExhausted), policy_within_training_step(algorithm.policy):
            while problem.remaining:
                collector.collect(n_episode=env.env_num)
                algorithm.policy.set_eps_training(min(1.0, self.parameters["exploration"] / env.episodes.length))
                for _ in range(self.parameters["updates"]):
                    algorithm.update(buffer, sample_size=self.parameters["minibatch"])

    def _algorithm(self, env: BatchedEnv) -> DQN[MaskedQPolicy]:
        policy = MaskedQPolicy(
            model=Values(env.tokens, self.parameters["hidden"], env.episodes.widest_operator),
            action_space=env.action_space[0],
            eps_training=1.0,
        )
        return DQN(
            policy=policy,
            optim=TorchOptimizerFactory(cast(Any, Adam), learning_rate=self.parameters["learning_rate"]),
            gamma=1.0,
            n_step_return_horizon=self.parameters["horizon"],
            target_update_freq=self.parameters["lag"],
        )


class MaskedQPolicy(DiscreteQLearningPolicy["Values"]):
    """Takes the choice of the highest value, or any legal one; illegal choices are worth minus infinity."""

    def forward(self, batch: Any, state: Any = None, model: Any = None) -> Any:
        """Return the values of each row's choices and the best of them."""
        values = (model or self.model)(batch.obs)
        return Batch(logits=values, act=values.argmax(dim=1).numpy(), state=state)

    def add_exploration_noise(self, act: Any, batch: Any) -> Any:
        """Replace some choices by legal ones, all equally likely."""
        legal = self.model.legal(batch.obs).numpy()
        drawn = np.where(legal, np.random.random(legal.shape), -1.0).argmax(axis=1)  # noqa: NPY002 (as Tianshou)
        return np.where(np.random.random(len(act)) < self.eps_training, drawn, act)  # noqa: NPY002


class Values(nn.Module):
    """The value of every choice of the next decision.

    The degrees come first, in the same situation each time: their value is a sum over their parts, so that what is
    learned of ``pp=4`` holds for all degrees that have it. An operator's values depend on all that is decided.
    """

    def __init__(self, tokens: Tokens, hidden: int, choices: int) -> None:
        super().__init__()
        self.parts = torch.as_tensor(tokens.degrees)
        self.degrees = nn.Embedding(tokens.count, 1)
        nn.init.zeros_(self.degrees.weight)
        self.operators = network(tokens, hidden, choices)
        self.width = tokens.width

    def forward(self, obs: Any) -> torch.Tensor:
        """Return values (n, choices), minus infinity where illegal; as many choices as a decision of the rows has."""
        obs, legal = torch.as_tensor(obs), self.legal(obs)
        values = _widened(self.operators(obs[:, : self.width]), legal.shape[1])
        at_degrees = self._at_degrees(obs)
        if at_degrees.any():
            values = torch.where(at_degrees, _widened(self.degrees(self.parts).sum(dim=1).T, legal.shape[1]), values)
        shown: torch.Tensor = values.masked_fill(~legal, -torch.inf)
        return shown

    def legal(self, obs: Any) -> torch.Tensor:
        """Return (n, choices) which choices of the next decision are legal."""
        obs = torch.as_tensor(obs)
        at_degrees = self._at_degrees(obs)
        masks: torch.Tensor = obs[:, self.width :].bool()
        if not at_degrees.any():
            return masks
        widest = max(len(self.parts), masks.shape[1])
        return torch.where(at_degrees, torch.arange(widest) < len(self.parts), _widened(masks, widest))

    def _at_degrees(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[:, :1] == 0


def _widened(values: torch.Tensor, width: int) -> torch.Tensor:
    return nn.functional.pad(values, (0, width - values.shape[1]))
