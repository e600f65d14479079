"""Proximal policy optimisation with Tianshou, one decision a step, illegal choices masked."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Distribution

from lts_bench.agent import Agent
from lts_bench.agents._adam import Adam
from lts_bench.agents._tianshou import BatchedEnv, Tokens, interpreted_numba, network, seed_everything
from lts_bench.budget import BudgetExhausted
from lts_bench.envs.sequential import ShardVectorEnv
from lts_bench.problem import Problem

with interpreted_numba():
    from tianshou.algorithm.modelfree.ppo import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import TorchOptimizerFactory
    from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
    from tianshou.utils.net.common import ActionReprNet
    from tianshou.utils.torch_utils import policy_within_training_step


class PPOAgent(Agent):
    """PPO (arXiv 1707.06347) from scratch on the sequential environment with a masked actor.

    ``exploration`` is the number of decisions an episode that are drawn uniformly: with so few episodes a policy that
    commits early would else propose one strategy again and again.

    Some thirty settings (learning rate, entropy, λ, batch and hidden sizes) were tried on four tasks at e1k, three of
    them of the suite large-npu, with 3 to 6 seeds each; the learning rate alone stood clear of the noise.
    """

    name, version, track, anytime = "ppo", "2", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "episodes": 32,
        "epochs": 4,
        "minibatch": 256,
        "learning_rate": 1e-2,
        "entropy": 0.03,
        "exploration": 1.0,
        "hidden": 64,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Play batches of episodes and learn from each until the budget is spent."""
        seed_everything(int(rng.integers(2**31)))
        env = BatchedEnv(ShardVectorEnv(self.parameters["episodes"], problem))
        algorithm = self._algorithm(env)
        buffer = VectorReplayBuffer(env.env_num * env.episodes.length, env.env_num)
        collector: Collector[CollectStats] = Collector(algorithm, env, buffer, raise_on_nan_in_buffer=False)
        collector.reset()
        with contextlib.suppress(BudgetExhausted), policy_within_training_step(algorithm.policy):
            while problem.remaining:
                collector.collect(n_episode=env.env_num)
                algorithm.update(buffer, batch_size=self.parameters["minibatch"], repeat=self.parameters["epochs"])
                collector.reset_buffer()

    def _algorithm(self, env: BatchedEnv) -> PPO:
        hidden = self.parameters["hidden"]
        uniform = min(1.0, self.parameters["exploration"] / env.episodes.length)
        policy = MaskedPolicy(
            actor=MaskedActor(env.tokens, hidden, env.episodes.widest_operator, uniform),
            dist_fn=lambda probabilities: Decisions(*probabilities),
            action_space=env.action_space[0],
            action_scaling=False,
            action_bound_method=None,
        )
        return PPO(
            policy=policy,
            critic=Critic(env.tokens, hidden),
            optim=TorchOptimizerFactory(cast(Any, Adam), learning_rate=self.parameters["learning_rate"]),
            ent_coef=self.parameters["entropy"],
            max_grad_norm=0.5,
            gamma=1.0,
        )


class MaskedPolicy(ProbabilisticActorPolicy):
    """Samples while it plays; an update brings its actions, and wants their distribution instead."""

    def forward(self, batch: Any, state: Any = None) -> Any:
        """Return a sample, or the distribution, of each row's decision."""
        probabilities, _ = self.actor(batch.obs)
        decisions = self.dist_fn(probabilities)
        return Batch(dist=decisions) if "act" in batch else Batch(act=decisions.sample())


class Decisions(Distribution):
    """One decision a row: of the degrees, which all such rows draw alike, or of an operator."""

    def __init__(self, at_degrees: torch.Tensor, degrees: torch.Tensor, operators: torch.Tensor) -> None:
        """Take which rows (n,) decide the degrees, probabilities of these (degrees,) and of operators (n, choices)."""
        super().__init__(at_degrees.shape, validate_args=False)
        self.at_degrees = at_degrees
        self.degrees: Any = Categorical(degrees, validate_args=False)
        self.operators: Any = Categorical(operators, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> torch.Tensor:
        """Return a choice of each row."""
        return torch.where(self.at_degrees, self.degrees.sample(self.batch_shape), self.operators.sample())

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the probability of each row's choice."""
        degrees = self.degrees.logits[(value * self.at_degrees).long()]  # its log_prob makes a table of rows × degrees
        return torch.where(self.at_degrees, degrees, self.operators.log_prob(value * ~self.at_degrees))

    def entropy(self) -> torch.Tensor:
        """Return the entropy of each row."""
        return torch.where(self.at_degrees, self.degrees.entropy(), self.operators.entropy())


class MaskedActor(ActionReprNet[Any]):
    """Probabilities of the legal choices, mixed with a uniform draw so that no choice dies.

    The degrees come first, in the same situation each time: their logit is a sum over their values, so that what is
    learned of ``pp=4`` holds for all degrees that have it. An operator's logits depend on all that is decided.
    """

    def __init__(self, tokens: Tokens, hidden: int, choices: int, uniform: float) -> None:
        super().__init__()
        values = torch.as_tensor(tokens.degrees)
        self.values = torch.zeros(len(values), int(values.max()) + 1).scatter_(1, values, 1.0)
        self.degrees = nn.Linear(self.values.shape[1], 1, bias=False)
        nn.init.zeros_(self.degrees.weight)
        self.operators = network(tokens, hidden, choices)
        self.width, self.uniform = tokens.width, uniform

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
        """Return the parameters of `Decisions`, and no state."""
        obs = torch.as_tensor(obs)
        tokens, legal = obs[:, : self.width], obs[:, self.width :].bool()
        at_degrees = tokens[:, 0] == 0
        values = self.values if at_degrees.any() else self.values[:1]
        degrees = self._explore(self.degrees(values)[:, 0], torch.ones(len(values), dtype=torch.bool))
        return (at_degrees, degrees, self._explore(self.operators(tokens), legal)), state

    def _explore(self, logits: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        learned = logits.masked_fill(~legal, -torch.inf).softmax(dim=-1)
        return (1.0 - self.uniform) * learned + self.uniform * legal / legal.sum(dim=-1, keepdim=True)


class Critic(nn.Module):
    """The value of an unfinished strategy."""

    def __init__(self, tokens: Tokens, hidden: int) -> None:
        super().__init__()
        self.layers = network(tokens, hidden, 1)
        self.width = tokens.width

    def forward(self, obs: Any) -> torch.Tensor:
        """Return values (n, 1)."""
        values: torch.Tensor = self.layers(torch.as_tensor(obs)[:, : self.width])
        return values
