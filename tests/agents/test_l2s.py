"""The attention policy keeps to the contract, starts from the elites and learns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import ToySpace, ToyTask

from lts_bench.baselines.random import RandomSearch
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

torch = pytest.importorskip("torch", reason="the extra 'rl' is not installed")

from lts_bench.agents._moves import operator_masks  # noqa: E402
from lts_bench.agents.l2s import L2S, Policy, advantages  # noqa: E402

TESTS = str(Path(__file__).parents[1])
SPACE = ToySpace()


class WithoutElites(L2S):
    def __init__(self) -> None:
        super().__init__(elites=0)


class TestL2S(AgentConformance):
    agent = L2S

    def task(self):
        return ToyTask()


class TestL2SWithFlatFeedback(TestL2S):
    def task(self):
        return ToyTask(feedback="flat")


class TestL2SWithoutElites(TestL2S):
    agent = WithoutElites


def policy(elites: int, exploration: float = 0.0) -> Policy:
    torch.manual_seed(0)
    return Policy(SPACE, elites, hidden=16, exploration=exploration)


def sampled(count: int, seed: int = 0) -> np.ndarray:
    return SPACE.sample(count, np.random.default_rng(seed))


def masks(vectors: np.ndarray):
    return torch.as_tensor(operator_masks(SPACE, vectors[:, 0]))


def test_it_beats_random_search():
    for task in map(ToyTask, range(3)):
        random = run_agent(RandomSearch, task, 300).best.goodput_per_npu
        assert run_agent(L2S, task, 300).best.goodput_per_npu > 1.2 * random


def test_what_it_draws_is_legal_and_starts_from_the_elites_in_turn():
    elites = sampled(4)
    drawn = policy(4).draw(torch.as_tensor(elites), 400)
    assert SPACE.legal(drawn).all()
    alike = (drawn[:, None] == elites).mean(axis=2)
    own = alike[np.arange(400), np.arange(400) % 4].mean()
    assert own > 0.6 > alike.mean()


def test_likelihoods_are_those_of_what_is_drawn():
    """Over all choices of one decision they sum to 1."""
    policy_, elites = policy(2), torch.as_tensor(sampled(2))
    vectors = torch.as_tensor(np.repeat(sampled(1, seed=1), 16, axis=0))
    vectors[:, 3] = torch.arange(16)
    rows = vectors[masks(vectors.numpy())[0, 2]]
    total = sum(
        policy_(elites, row[None].expand(2, -1), masks(row[None].expand(2, -1).numpy()))[0][0, 3].exp() for row in rows
    )
    assert total.item() == pytest.approx(1.0, abs=1e-5)


def test_exploration_leaves_every_legal_choice_some_likelihood():
    vectors = sampled(200, seed=2)
    decisions = len(SPACE.sizes)
    likelihood, entropy = policy(3, exploration=0.9)(
        torch.as_tensor(sampled(3)), torch.as_tensor(vectors), masks(vectors)
    )
    assert likelihood.exp().min() >= 0.9 / decisions / max(SPACE.sizes) * 0.99
    assert torch.isfinite(entropy)


def test_without_elites_nothing_is_copied():
    vectors = sampled(50)
    likelihood, _ = policy(0)(
        torch.zeros((0, len(SPACE.sizes)), dtype=torch.int64), torch.as_tensor(vectors), masks(vectors)
    )
    legal = operator_masks(SPACE, vectors[:, 0]).sum(axis=2)
    assert likelihood[:, 1:].detach().exp().numpy() * legal == pytest.approx(np.ones(legal.shape), abs=0.3)


def test_gradients_are_finite_where_choices_are_illegal():
    policy_, vectors = policy(2), sampled(20)
    drawn = policy_.draw(torch.as_tensor(vectors[:2]), 20)
    _, entropy = policy_(torch.as_tensor(vectors[:2]), torch.as_tensor(drawn), masks(drawn))
    entropy.backward()
    assert all(torch.isfinite(each.grad).all() for each in policy_.parameters() if each.grad is not None)


def test_advantages_rank_goodput_before_violations():
    gains = advantages(np.array([2.0, 1.0, -0.1, -3.0, -9.0]), best=2.0)[:, 0].tolist()
    assert gains[0] > gains[1] > gains[2] > gains[3] == gains[4]
    assert sum(gains) == pytest.approx(0.0, abs=1e-5)
    assert advantages(np.zeros(3), best=0.0)[:, 0].tolist() == [0.0] * 3


def test_a_run_does_not_import_torchs_compiler():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from fakes import ToyTask;"
        "from lts_bench.agents.l2s import L2S; from lts_bench.testing.conformance import run_agent;"
        "print(run_agent(L2S, ToyTask(), 64).used, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, TESTS], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert done.stdout.split() == ["64", "False"]
