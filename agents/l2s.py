"""Learning to shard: a policy that edits the best strategies found so far and attends to them."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding_bag

from lts_bench.agent import AskTell
from lts_bench.agents._adam import Adam
from lts_bench.agents._edits import Editor, Edits
from lts_bench.agents._history import History, relative, values
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space

SCALE = 0.1
"""The loss, as a share of the best goodput, that makes a strategy 1/e as desirable to the policy."""


class L2S(AskTell):
    """An attention policy over an elite history, after "Learning to Shard" (arXiv 2509.00217).

    The elites are the best strategies of distinct degrees. An action takes one of them and edits it: other degrees, an
    operator, a letter on an axis, axes exchanged, letters taken from another elite. The policy scores all edits whose
    outcome is new, attending from each to the elites, and learns from every batch by policy gradient with a clipped
    ratio what edits improve. It begins as a prior that prefers the better elites, and stays mixed with it. With
    ``elites=0`` it edits what it evaluated last and sees nothing but what it has learned. The code of the paper is not
    public: idea and name are its, all else is not.

    Tuned on 16 tasks of the suite train at e1k, 2 to 4 seeds each, some 25 settings, 1.9 million evaluations: elites 4
    to 12, temperature 0.01 to 0.05, batches of 4 and 8, first 16 and 32, flat 0 and 0.05, exploration 0 and 0.5,
    learning rates 0 to 0.05, advantages that count losses. Elites of distinct degrees gained most (0.83 to 0.92 of the
    optimum). To prefer what other elites have, to count losses, and learning rates from 0.01 without exploration did
    harm. What is learned within 1,000 evaluations is worth 0.003 beside a learning rate of 0 on 40 tasks, within the
    noise: the prior, the elites and that nothing is tried twice do the rest.
    """

    name, version, track, anytime = "l2s", "2", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "first": 32,
        "batch": 8,
        "elites": 8,
        "temperature": 0.02,
        "near": 12,
        "flat": 0.05,
        "exploration": 0.5,
        "hidden": 32,
        "epochs": 2,
        "learning_rate": 3e-3,
        "clip": 0.2,
    }

    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin with an untrained policy."""
        torch.manual_seed(int(rng.integers(2**31)))
        torch.set_num_threads(1)
        space, kept = problem.space, self.parameters["elites"]
        self._space, self._rng = space, rng
        self._editor = Editor(space, self.parameters["near"], self.parameters["flat"], rng)
        self._history = History(space, max(1, kept), apart=True)
        self._policy = Policy(space, self._editor.kinds, kept, self.parameters["hidden"])
        self._optimizer = Adam(self._policy.parameters(), self.parameters["learning_rate"])
        self._starts, self._before = self._history.vectors, self._history.values
        self._edits: Edits | None = None

    def ask(self, n: int) -> np.ndarray:
        """Draw edits from the policy, without replacement; strategies are random at first and where no edit is new."""
        if not len(self._starts):
            return self._space.sample(self.parameters["first"], self._rng)
        elites = self._history.vectors[: self.parameters["elites"]]
        self._edits = self._editor.edits(self._starts, self._weights(), elites, self._history)
        if not len(self._edits.prior):
            self._edits = None
            return self._history.propose(partial(self._space.sample, self.parameters["batch"], self._rng), self._rng)
        self._scored = partial(self._likelihood, self._edits, self._starts, elites)
        with torch.no_grad():
            self._drawn_from = self._scored()
        keys = self._drawn_from.numpy() + self._rng.gumbel(size=len(self._drawn_from))
        self._chosen = np.argsort(-keys, kind="stable")[: self.parameters["batch"]]
        return self._edits.vectors[self._chosen]

    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Learn what improved the starts, and choose new starts."""
        found = values(answers)
        self._history.add(vectors, found)
        if self._edits is not None:
            before = self._before[self._edits.starts[self._chosen]]
            self._learn(advantages(found, before, self._history.values[0]))
        self._starts, self._before = self._history.vectors, self._history.values
        if not self.parameters["elites"]:
            self._starts, self._before = vectors[: self.parameters["batch"]], found[: self.parameters["batch"]]

    def _weights(self) -> np.ndarray:
        """Return (m,) how likely each start is edited: the better elites the likelier, without elites all alike."""
        if not self.parameters["elites"]:
            return np.ones(len(self._before))
        worth = relative(self._before, self._before[0])
        # None is 0, so that those of the worst can be drawn where all edits of the others were tried.
        weights: np.ndarray = np.exp(((worth - worth[0]) / self.parameters["temperature"]).clip(-200.0))
        return weights

    def _likelihood(self, edits: Edits, starts: np.ndarray, elites: np.ndarray) -> torch.Tensor:
        """Return (n,) the logarithms of how likely each edit is drawn."""
        prior = torch.as_tensor(edits.prior, dtype=torch.float32)
        learned = (prior.log() + self._policy(edits, starts, elites)).softmax(dim=0)
        mixed: torch.Tensor = (1.0 - self.parameters["exploration"]) * learned + self.parameters["exploration"] * prior
        # At 0 the gradient would be infinite.
        return mixed.clamp_min(torch.finfo(torch.float32).tiny).log()

    def _learn(self, gains: torch.Tensor) -> None:
        """Make edits that improved likelier, others of their batch less likely (PPO, arXiv 1707.06347)."""
        for _ in range(self.parameters["epochs"] if gains.any() else 0):
            ratio = (self._scored() - self._drawn_from)[self._chosen].exp()
            clipped = ratio.clamp(1.0 - self.parameters["clip"], 1.0 + self.parameters["clip"])
            self._optimizer.zero_grad()
            (-torch.minimum(ratio * gains, clipped * gains).mean()).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._policy.parameters(), 1.0)
            self._optimizer.step()


def advantages(found: np.ndarray, before: np.ndarray, best: float) -> torch.Tensor:
    """Return (n,) how much more edits improved their starts than the mean of their batch, in standard deviations.

    What does not improve its start counts as 0, whatever it loses; improvements far below the best hardly count.

    Args:
        found: (n,) values of the edits.
        before: (n,) values of their starts.
        best: the highest value so far.
    """
    highest = relative(np.array([best]), best)
    after, earlier = (np.exp((relative(each, best) - highest) / SCALE) for each in (found, before))
    improved = (after - earlier).clip(0.0)
    return torch.as_tensor((improved - improved.mean()) / (improved.std() + 1e-9), dtype=torch.float32)


class Policy(nn.Module):
    """Scores edits: what they write and erase, their kind, their start, and the elites that they attend to.

    A strategy is the sum of the tokens of its degrees' values (what is learned of pp = 4 holds wherever pp is 4) and of
    its operators' choices; an edit is the difference of two strategies. It attends to the elites, whose keys also tell
    their ranks. All scores begin as 0.
    """

    def __init__(self, space: Space, kinds: int, elites: int, hidden: int) -> None:
        super().__init__()
        columns = [np.unique(column, return_inverse=True) for column in space.degrees.T]
        self._of_degrees = np.stack([places for _, places in columns], axis=1)
        sizes = np.array([len(each) for each, _ in columns] + space.sizes[1:].tolist())
        self._offsets, self._scale = sizes.cumsum() - sizes, len(sizes) ** -0.5
        self.token = nn.Parameter(torch.randn(int(sizes.sum()), hidden) / 2)
        self.worth = nn.Parameter(torch.zeros(int(sizes.sum()), 1))
        self.kind = nn.Parameter(torch.zeros(kinds))
        self.rank = nn.Parameter(torch.randn(elites, hidden) / 2)
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.Tanh(), last)

    def forward(self, edits: Edits, starts: np.ndarray, elites: np.ndarray) -> torch.Tensor:
        """Return the scores (n,) of edits of starts (m, d), seeing elites (k, d)."""
        at, kinds = torch.as_tensor(edits.starts), torch.as_tensor(edits.kinds)
        before, after, remembered = (self._tokens(vectors) for vectors in (starts, edits.vectors, elites))
        start = self._sum(before, self.token)[at] * self._scale
        edit = self._sum(after, self.token) - start / self._scale
        elite = self._sum(remembered, self.token) * self._scale
        keys = self.key(torch.tanh(elite + self.rank[: len(elite)]))
        context = (self.query(torch.tanh(edit)) @ keys.T * keys.shape[1] ** -0.5).softmax(dim=1) @ elite
        worth = self._sum(after, self.worth) - self._sum(before, self.worth)[at]
        scores: torch.Tensor = worth + self.network(torch.cat((edit, start, context), dim=1))
        return scores[:, 0] + self.kind[kinds]

    def _tokens(self, vectors: np.ndarray) -> torch.Tensor:
        own = np.concatenate((self._of_degrees[vectors[:, 0]], vectors[:, 1:]), axis=1)
        return torch.as_tensor(own + self._offsets)

    def _sum(self, tokens: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        if not len(tokens):
            return table.new_zeros((0, table.shape[1]))
        summed: torch.Tensor = embedding_bag(tokens, table, mode="sum")
        return summed
