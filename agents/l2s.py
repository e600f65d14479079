"""Learning to shard: a policy that attends to the best strategies found so far."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from lts_bench.agent import Agent
from lts_bench.agents._adam import Adam
from lts_bench.agents._history import History, relative, values
from lts_bench.agents._moves import operator_masks
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space


class L2S(Agent):
    """An attention policy over an elite history, after "Learning to Shard" (arXiv 2509.00217).

    The policy sees the elites, the best strategies so far. It draws the degrees, then every operator given the degrees,
    and learns from each batch by policy gradient with a clipped ratio; the advantage is relative to the batch. A
    uniform draw of some decisions, ``exploration`` a strategy on average, and no strategy twice keep it from stalling.
    With ``elites=0`` the same policy sees nothing but what it has learned. The code of the paper is not public: idea
    and name are its, all else is not.

    Tuned on eight tasks of no suite at e1k, 2 to 6 seeds each, some 60 settings, 1.5 million evaluations: learning rate
    0 to 0.03, batches of 16 and 32, 8 to 16 elites, 4 and 8 epochs, entropy 0 to 0.05, exploration 0.5 to 2, copying 3
    to 6. Learning rates above 0.003 were worse than not to learn at all; the rest was within the noise.
    """

    name, version, track, anytime = "l2s", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "batch": 32,
        "elites": 8,
        "hidden": 32,
        "epochs": 4,
        "learning_rate": 1e-3,
        "clip": 0.2,
        "entropy": 0.01,
        "exploration": 1.0,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Draw batches and learn from each until the budget is spent."""
        torch.manual_seed(int(rng.integers(2**31)))
        torch.set_num_threads(1)
        batch, kept = self.parameters["batch"], self.parameters["elites"]
        policy = Policy(problem.space, kept, self.parameters["hidden"], self.parameters["exploration"])
        optimizer = Adam(policy.parameters(), self.parameters["learning_rate"])
        history = History(problem.space, max(1, kept))
        with contextlib.suppress(BudgetExhausted):
            vectors = problem.space.sample(batch, rng)
            history.add(vectors, values(problem.evaluate(vectors)))
            while problem.remaining:
                elites = torch.as_tensor(history.vectors[:kept])
                vectors = history.propose(partial(policy.draw, elites, batch), rng)
                found = values(problem.evaluate(vectors))
                history.add(vectors, found)
                self._learn(policy, optimizer, elites, vectors, advantages(found, history.values[0]))

    def _learn(
        self, policy: Policy, optimizer: Adam, elites: torch.Tensor, vectors: np.ndarray, gains: torch.Tensor
    ) -> None:
        """Make decisions of good strategies likelier, those of bad ones less likely (PPO, arXiv 1707.06347)."""
        drawn, legal = torch.as_tensor(vectors), torch.as_tensor(operator_masks(policy.space, vectors[:, 0]))
        before: torch.Tensor | None = None
        for _ in range(self.parameters["epochs"]):
            likelihood, entropy = policy(elites, drawn, legal)
            before = likelihood.detach() if before is None else before
            ratio = (likelihood - before).exp()
            clipped = ratio.clamp(1.0 - self.parameters["clip"], 1.0 + self.parameters["clip"])
            gained = torch.minimum(ratio * gains, clipped * gains).sum(dim=1).mean()
            optimizer.zero_grad()
            (-gained - self.parameters["entropy"] * entropy).backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()


def advantages(found: np.ndarray, best: float) -> torch.Tensor:
    """Return (n, 1) how much better than the mean of their batch strategies are, in standard deviations.

    Goodput counts as a share of the best so far, violations (see `values`) as -1 at most.
    """
    rewards = relative(found, best).clip(-1.0)
    gains = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    return torch.as_tensor(gains, dtype=torch.float32)[:, None]


class Memory(NamedTuple):
    """What the policy sees of k elites.

    Attributes:
        choices: (k, d) the elites, best first.
        tokens: (k, d, hidden) of their choices.
        keys: (k, d, hidden) what is attended by.
        distances: (k, degrees) doublings between their degrees and all others.
    """

    choices: torch.Tensor
    tokens: torch.Tensor
    keys: torch.Tensor
    distances: torch.Tensor


class Policy(nn.Module):
    """Probabilities of the degrees, and of each operator's choices given the degrees.

    A token is one elite's choice in one decision; its key also tells the elite's rank and all its other choices. A
    decision attends to the elites' tokens of that decision. Row i of a batch leads with elite i mod k, so that a row's
    decisions start from one strategy. What is attended to enters twice: its choices become likelier themselves, degrees
    the more the nearer, and its tokens are the context of a network whose outputs begin near zero.
    """

    def __init__(self, space: Space, elites: int, hidden: int, exploration: float) -> None:
        super().__init__()
        self.space, self.uniform = space, min(1.0, exploration / len(space.sizes))
        self.logarithms = torch.as_tensor(np.log2(space.degrees), dtype=torch.float32)
        self.has_value = torch.as_tensor(_one_hot_values(space.degrees), dtype=torch.float32)
        decisions, widest = len(space.sizes), int(space.sizes[1:].max())
        self.value = nn.Parameter(torch.randn(self.has_value.shape[1], hidden) / space.degrees.shape[1] ** 0.5)
        self.choice = nn.Parameter(torch.randn(decisions - 1, widest, hidden))
        self.decision = nn.Parameter(torch.randn(decisions, hidden) / 2)
        self.rank = nn.Parameter(torch.randn(elites, 1, hidden) / 2)
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        last = nn.Linear(hidden, hidden)
        nn.init.normal_(last.weight, std=0.01)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), last)
        self.leading, self.copying, self.nearness = (nn.Parameter(torch.tensor(each)) for each in (4.0, 4.0, 1.0))

    def draw(self, elites: torch.Tensor, count: int) -> np.ndarray:
        """Return vectors (count, d)."""
        with torch.no_grad():
            memory = self._remember(elites)
            degrees = torch.multinomial(self._degrees(memory, count), 1)
            legal = torch.as_tensor(operator_masks(self.space, degrees[:, 0].numpy()))
            operators = self._operators(memory, degrees[:, 0], legal)
            drawn = torch.multinomial(operators.flatten(0, 1), 1).reshape(count, -1)
        vectors: np.ndarray = torch.cat((degrees, drawn), dim=1).numpy()
        return vectors

    def forward(
        self, elites: torch.Tensor, vectors: torch.Tensor, legal: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-likelihood (n, d) of each decision of vectors (n, d), and the mean entropy of a strategy.

        Args:
            elites: (k, d) best first.
            vectors: in the order in which they were drawn.
            legal: (n, operators, most choices) under the vectors' degrees.
        """
        memory = self._remember(elites)
        degrees, operators = self._degrees(memory, len(vectors)), self._operators(memory, vectors[:, 0], legal)
        taken = torch.cat(
            (degrees.gather(1, vectors[:, :1]), operators.gather(2, vectors[:, 1:, None])[:, :, 0]), dim=1
        )
        return taken.log(), (_entropy(degrees) + _entropy(operators.flatten(1))).mean()

    def _remember(self, elites: torch.Tensor) -> Memory:
        operators = torch.arange(elites.shape[1] - 1)
        of_degrees = (self.has_value[elites[:, :1]] @ self.value, self.choice[operators, elites[:, 1:]])
        tokens = torch.cat(of_degrees, dim=1)
        whole = tokens.sum(dim=1, keepdim=True) / tokens.shape[1] ** 0.5
        keys = self.key(torch.tanh(tokens + whole + self.rank[: len(elites)]))
        distances = (self.logarithms[elites[:, :1]] - self.logarithms).abs().sum(dim=2)
        return Memory(elites, tokens, keys, distances)

    def _attend(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the weights (n, c, k) of elites for queries (n, c, hidden) of as many decisions as there are keys."""
        lead = torch.arange(len(queries))[:, None] % max(1, len(keys)) == torch.arange(len(keys))
        scores = torch.einsum("nch,kch->nck", self.query(queries), keys) / keys.shape[2] ** 0.5
        weights: torch.Tensor = (scores + self.leading * lead[:, None]).softmax(dim=2)
        return weights

    def _degrees(self, memory: Memory, count: int) -> torch.Tensor:
        """Return probabilities (count, degrees)."""
        queries = self.decision[:1].expand(count, 1, -1)
        weights = self._attend(queries, memory.keys[:, :1])
        context = torch.einsum("nck,kch->nch", weights, memory.tokens[:, :1])
        learned = self.network(torch.cat((queries, context), dim=2))[:, 0] @ (self.has_value @ self.value).T
        logits = learned - self.nearness * weights[:, 0] @ memory.distances
        shares = logits.softmax(dim=1)
        mixed: torch.Tensor = (1.0 - self.uniform) * shares + self.uniform / logits.shape[1]
        return mixed

    def _operators(self, memory: Memory, degrees: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Return probabilities (n, operators, most choices) given the degrees (n,)."""
        queries = self.decision[1:] + (self.has_value[degrees] @ self.value)[:, None]
        weights = self._attend(queries, memory.keys[:, 1:])
        context = torch.einsum("nck,kch->nch", weights, memory.tokens[:, 1:])
        learned = torch.einsum("nch,cwh->ncw", self.network(torch.cat((queries, context), dim=2)), self.choice)
        chosen = memory.choices[:, 1:, None] == torch.arange(legal.shape[2])
        logits = learned + self.copying * torch.einsum("nck,kcw->ncw", weights, chosen.float())
        shares = logits.masked_fill(~legal, -torch.inf).softmax(dim=2)
        mixed: torch.Tensor = (1.0 - self.uniform) * shares + self.uniform * legal / legal.sum(dim=2, keepdim=True)
        return mixed


def _entropy(probabilities: torch.Tensor) -> torch.Tensor:
    # At 0 its gradient would be infinite.
    entropy: torch.Tensor = torch.special.entr(probabilities.clamp_min(1e-12)).sum(dim=1)
    return entropy


def _one_hot_values(degrees: np.ndarray) -> np.ndarray:
    """Return (degrees, values) which values the degrees have: what is learned of pp = 4 holds wherever pp is 4."""
    return np.concatenate([column[:, None] == np.unique(column) for column in degrees.T], axis=1)
