"""Proximal policy optimisation with Tianshou, one decision a step, illegal choices masked."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Distribution

from lts_bench.agent import Agent
from lts_bench.agents._adam import Adam
from lts_bench.budget import BudgetExhausted
from lts_bench.envs.episodes import Episodes
from lts_bench.envs.sequential import ShardVectorEnv
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space


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
    from tianshou.algorithm.optim import TorchOptimizerFactory
    from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
    from tianshou.env import BaseVectorEnv
    from tianshou.utils.net.common import ActionReprNet
    from tianshou.utils.torch_utils import policy_within_training_step


Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


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
        _seed(int(rng.integers(2**31)))
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
        self.operators = _network(tokens, hidden, choices)
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
        self.layers = _network(tokens, hidden, 1)
        self.width = tokens.width

    def forward(self, obs: Any) -> torch.Tensor:
        """Return values (n, 1)."""
        values: torch.Tensor = self.layers(torch.as_tensor(obs)[:, : self.width])
        return values


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


def _network(tokens: Tokens, hidden: int, outputs: int) -> nn.Sequential:
    embedding, last = nn.EmbeddingBag(tokens.count, hidden, mode="sum"), nn.Linear(hidden, outputs)
    nn.init.normal_(embedding.weight, std=tokens.width**-0.5)
    nn.init.normal_(last.weight, std=0.01)
    return nn.Sequential(embedding, nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), last)


def _seed(seed: int) -> None:
    """Seed what Tianshou and torch draw from; one thread, so that sums don't depend on the machine's load."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (Tianshou draws from the global state)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
