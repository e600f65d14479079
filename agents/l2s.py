"""Learning to shard: a policy that attends to the best strategies found so far."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from lts_bench.agent import Agent
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import operator_masks
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space


class L2S(Agent):
    name, version, track, anytime = "l2s", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = {
        "batch": 32, "elites": 8, "hidden": 32, "epochs": 4, "learning_rate": 1e-2, "entropy": 0.01, "exploration": 1.0, "clip": 0.2, "copy": 4.0, "mode": 0, "lead": 4.0, "near": 1.0,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        torch.manual_seed(int(rng.integers(2**31)))
        torch.set_num_threads(1)
        p = self.parameters
        space = problem.space
        history = History(space, p["elites"] or 1)
        policy = Policy(space, p)
        optimizer = torch.optim.Adam(policy.parameters(), lr=p["learning_rate"])
        with contextlib.suppress(BudgetExhausted):
            v = space.sample(p["batch"], rng)
            history.add(v, values(problem.evaluate(v)))
            while problem.remaining:
                elites = torch.as_tensor(history.vectors[: p["elites"]])
                box = {}
                def draw():
                    with torch.no_grad():
                        vectors, lead = policy.sample(elites, p["batch"])
                    # keep leads with rows
                    for row, l in zip(space.canonical(vectors.numpy()), lead.tolist()):
                        box.setdefault(row.tobytes(), l)
                    return vectors.numpy()
                vectors = history.propose(draw, rng)
                leads = torch.tensor([box.get(r.tobytes(), 0) for r in vectors])
                found = values(problem.evaluate(vectors))
                history.add(vectors, found)
                self._learn(policy, optimizer, elites, torch.as_tensor(vectors), leads, found, history.values[0])

    def _learn(self, policy, optimizer, elites, vectors, leads, found, best):
        p = self.parameters
        scaled = np.where(found > 0, found / max(best, 1e-300), -np.minimum(1.0, -found/5))
        adv = torch.as_tensor((scaled - scaled.mean()) / (scaled.std() + 1e-6), dtype=torch.float32)
        if p["mode"]:
            rank = np.argsort(np.argsort(-found, kind="stable"), kind="stable")
            u = np.maximum(0, np.log(len(found)/2+1) - np.log(rank+1)); u = u/u.sum() * len(u) - (p["mode"] == 1)
            adv = torch.as_tensor(u, dtype=torch.float32)
        masks = torch.as_tensor(operator_masks(policy.space, vectors[:, 0].numpy()))
        old = None
        for _ in range(p["epochs"]):
            logp, entropy = policy.log_prob(elites, vectors, leads, masks)
            if old is None:
                old = logp.detach()
            ratio = (logp - old).exp()
            a = adv[:, None]
            loss = -torch.minimum(ratio * a, ratio.clamp(1 - p["clip"], 1 + p["clip"]) * a).sum(1).mean() - p["entropy"] * entropy
            optimizer.zero_grad(); loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()


class Policy(nn.Module):
    def __init__(self, space: Space, p) -> None:
        super().__init__()
        self.space, h = space, p["hidden"]
        self.uniform = min(1.0, p["exploration"] / len(space.sizes))
        ranks = [np.unique(c, return_inverse=True) for c in space.degrees.T]
        starts = np.cumsum([0] + [len(u) for u, _ in ranks])
        self.factors = torch.as_tensor(np.stack([s + r for s, (_, r) in zip(starts, ranks)], 1))
        self.factor = nn.Embedding(int(starts[-1]), h)
        self.widest, self.ops = int(space.sizes[1:].max()), len(space.sizes) - 1
        self.choice = nn.Parameter(torch.randn(self.ops, self.widest, h))
        nn.init.normal_(self.factor.weight, std=7**-0.5)
        self.decision = nn.Parameter(torch.randn(self.ops + 1, h) * 0.5)
        self.rank = nn.Parameter(torch.randn(max(1, p["elites"]), h) * 0.5)
        self.rank_bias = nn.Parameter(-torch.arange(max(1, p["elites"])) / 8.0)
        self.key, self.query, self.value = (nn.Linear(h, h) for _ in range(3))
        nn.init.zeros_(self.value.weight); nn.init.zeros_(self.value.bias)
        self.prior = nn.Sequential(nn.Linear(2*h, h), nn.Tanh(), nn.Linear(h, h))
        nn.init.normal_(self.prior[-1].weight, std=0.01)
        self.copy = nn.Parameter(torch.tensor(float(p["copy"])))
        self.near = nn.Parameter(torch.tensor(float(p["near"])))
        self.lead_scale = nn.Parameter(torch.tensor(float(p["lead"])))
        self.h = h
        self.logs = torch.as_tensor(np.log2(space.degrees), dtype=torch.float32)

    def encode(self, elites):
        d = self.factor(self.factors).sum(1)  # (D,h)
        if not len(elites):
            return d, None, None
        cols = torch.arange(self.ops)
        tok = torch.cat((d[elites[:, :1]], self.choice[cols, elites[:, 1:]]), 1)  # K,d,h
        summary = tok.mean(1, keepdim=True) * tok.shape[1] ** 0.5 + self.rank[: len(elites), None]
        keys = self.key(torch.tanh(tok + summary))
        return d, tok, keys

    def lead_logits(self, k):
        return self.rank_bias[:k]

    def attend(self, q, keys, lead, cols):
        a = torch.einsum("nch,kch->nck", self.query(q), keys[:, cols]) / self.h**0.5
        a = a + self.lead_scale * nn.functional.one_hot(lead, len(keys))[:, None]
        return a.softmax(-1)

    def degree_probs(self, d, tok, keys, lead, elites):
        n = len(lead)
        q = self.decision[:1].expand(n, 1, -1)
        c, bias = torch.zeros(n, 1, self.h), 0.0
        if tok is not None:
            a = self.attend(q, keys, lead, slice(0, 1))
            c = torch.einsum("nck,kch->nch", a, tok[:, :1])
            bias = -self.near * a[:, 0] @ self.distance(elites[:, 0])
        out = self.prior(torch.cat((q, c), -1))[:, 0]
        pr = (out @ d.T + bias).softmax(-1)
        return (1 - self.uniform) * pr + self.uniform / len(d)

    def distance(self, i):
        return (self.logs - self.logs[i][:, None]).abs().sum(-1)

    def op_probs(self, d, tok, keys, lead, degrees, masks, elites):
        q = self.decision[1:] + d[degrees][:, None]
        c, bias = torch.zeros_like(q), 0.0
        if tok is not None:
            a = self.attend(q, keys, lead, slice(1, None))
            c = torch.einsum("nck,kch->nch", a, tok[:, 1:])
            bias = self.copy * torch.einsum("nck,kcw->ncw", a, nn.functional.one_hot(elites[:, 1:], self.widest).float())
        out = self.prior(torch.cat((q, c), -1))
        logits = torch.einsum("nch,cwh->ncw", out, self.choice) + bias
        pr = logits.masked_fill(~masks, -torch.inf).softmax(-1)
        return (1 - self.uniform) * pr + self.uniform * masks / masks.sum(-1, keepdim=True)

    def sample(self, elites, n):
        d, tok, keys = self.encode(elites)
        lead = torch.multinomial(self.lead_logits(len(elites)).softmax(-1), n, replacement=True) if len(elites) else torch.zeros(n, dtype=torch.long)
        degrees = torch.multinomial(self.degree_probs(d, tok, keys, lead, elites), 1)[:, 0]
        masks = torch.as_tensor(operator_masks(self.space, degrees.numpy()))
        pr = self.op_probs(d, tok, keys, lead, degrees, masks, elites)
        ops = torch.multinomial(pr.flatten(0, 1), 1).reshape(n, -1)
        return torch.cat((degrees[:, None], ops), 1), lead

    def log_prob(self, elites, vectors, lead, masks):
        d, tok, keys = self.encode(elites)
        dp = self.degree_probs(d, tok, keys, lead, elites)
        op = self.op_probs(d, tok, keys, lead, vectors[:, 0], masks, elites)
        lp = torch.cat((dp.gather(1, vectors[:, :1]), op.gather(2, vectors[:, 1:, None])[..., 0]), 1).log()
        if len(elites):
            lp = torch.cat((self.lead_logits(len(elites)).log_softmax(-1)[lead][:, None], lp), 1)
        ent = -(dp * dp.log()).sum(1).mean() - (op * (op + 1e-12).log()).sum((1, 2)).mean()
        return lp, ent
