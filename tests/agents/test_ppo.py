"""PPO keeps to the agent's contract and learns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import ToyTask, Watched

from lts_bench.testing import CHECKS, check_agent
from lts_bench.testing.conformance import run_agent

pytest.importorskip("tianshou", reason="the extra 'rl' is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

import torch  # noqa: E402

from lts_bench.agents._tianshou import BatchedEnv  # noqa: E402
from lts_bench.agents.ppo import Decisions, MaskedActor, PPOAgent  # noqa: E402
from lts_bench.envs import ShardVectorEnv  # noqa: E402

TESTS = str(Path(__file__).parents[1])


def test_it_passes_every_check():
    results = check_agent(PPOAgent, ToyTask())
    assert [result.name for result in results] == list(CHECKS)
    assert [result for result in results if not result.passed] == []


def test_later_strategies_are_better_than_earlier_ones():
    task = Watched(ToyTask(1))
    run_agent(PPOAgent, task, 800)
    assert np.mean(task.goodputs[-200:]) > 1.3 * np.mean(task.goodputs[:100])


def batched(count: int) -> BatchedEnv:
    return BatchedEnv(ShardVectorEnv(count, task=ToyTask()))


def test_probabilities_are_a_distribution_on_the_legal_choices_and_none_is_zero():
    torch.manual_seed(0)
    env = batched(2)
    space, choices = env.env.problem.space, env.episodes.widest_operator
    actor = MaskedActor(env.tokens, hidden=8, choices=choices, uniform=0.1)
    with torch.no_grad():
        actor.operators[-1].bias.copy_(50.0 * torch.arange(choices))
        at_start, degrees, _ = actor(env.reset()[0])[0]
        observations, *_ = env.step(np.array([3, 4]))
        later, _, operators = actor(observations)[0]
    assert at_start.all() and not later.any()
    assert degrees.tolist() == pytest.approx([1 / space.sizes[0]] * space.sizes[0])
    for row, index in zip(operators, (3, 4), strict=True):
        legal = torch.as_tensor(space.mask(index)[1, :choices])
        assert row.sum() == pytest.approx(1.0)
        assert (row[~legal] == 0).all()
        assert row[legal].min() >= 0.099 / legal.sum()


def test_degrees_that_share_a_value_share_what_is_learned_of_it():
    env = batched(1)
    actor = MaskedActor(env.tokens, hidden=8, choices=env.episodes.widest_operator, uniform=0.0)
    pipelined = env.env.problem.space.degrees[:, 1] == 2
    with torch.no_grad():
        actor.degrees.weight[0, env.tokens.degrees[pipelined, 1]] = 2.0
        (_, degrees, _), _ = actor(env.reset()[0])
    assert np.ptp(degrees[pipelined].numpy()) == np.ptp(degrees[~pipelined].numpy()) == 0.0
    assert degrees[pipelined][0] / degrees[~pipelined][0] == pytest.approx(np.exp(2.0))


def test_decisions_are_those_of_the_degrees_or_of_an_operator():
    torch.manual_seed(0)
    degrees, operators = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    decisions = Decisions(torch.tensor([True, False]), degrees, operators)
    samples = torch.stack([decisions.sample() for _ in range(100)])
    assert set(samples[:, 0].tolist()) == {0, 1, 2}
    assert set(samples[:, 1].tolist()) == {1}
    assert decisions.log_prob(torch.tensor([2.0, 1.0])).tolist() == pytest.approx([np.log(0.25), 0.0], abs=1e-6)
    assert decisions.entropy().tolist() == pytest.approx([1.5 * np.log(2), 0.0], abs=1e-5)


def test_tokens_tell_all_that_is_decided_and_nothing_else():
    env = batched(2)
    seen = [env.tokens.of(env.episodes)]
    for column in env.env.problem.space.sample(2, np.random.default_rng(2)).T:
        env.step(column)
        seen.append(env.tokens.of(env.episodes))
    opened = [(tokens == 0).sum(axis=1).tolist() for tokens in seen]
    operators = env.episodes.length - 1
    assert opened == [[7 + operators] * 2] + [[left] * 2 for left in range(operators, -1, -1)]
    assert max(tokens.max() for tokens in seen) < env.tokens.count
    last = seen[-1]
    assert len(set(last[0])) == env.tokens.width
    assert ((last[0] == last[1])[8:] == (env.episodes.vectors[0] == env.episodes.vectors[1])[1:]).all()


def test_observations_are_tokens_and_the_mask():
    env = batched(2)
    env.reset()
    observations, *_ = env.step(np.array([3, 4]))
    assert (observations[:, : env.tokens.width] == env.tokens.of(env.episodes)).all()
    assert (observations[:, env.tokens.width :] == env.episodes.operator_masks()).all()


def test_tianshou_resets_some_episodes_only():
    env = batched(3)
    env.reset()
    env.step(np.array([1, 2, 3]))
    observations, infos = env.reset([2])
    assert len(observations) == len(infos) == 1
    assert env.episodes.positions.tolist() == [1, 1, 0]


def test_a_run_does_not_import_torchs_compiler():
    code = (
        "import warnings; warnings.simplefilter('ignore'); import sys; sys.path.insert(0, sys.argv[1]);"
        "from fakes import ToyTask; from lts_bench.agents.ppo import PPOAgent;"
        "from lts_bench.testing.conformance import run_agent;"
        "print(run_agent(PPOAgent, ToyTask(), 64).used, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, TESTS], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert done.stdout.split() == ["64", "False"]


def test_importing_it_leaves_numbas_compiler_on():
    code = (
        "import warnings; warnings.simplefilter('ignore'); import lts_bench.agents.ppo, numba, os;"
        "f = numba.njit(lambda x: x + 1); print(hasattr(f, 'py_func'), f(1), os.environ.get('NUMBA_DISABLE_JIT'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["True", "2", "None"]
