"""DQN keeps to the agent's contract, never takes an illegal choice, and learns."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask, Watched

from lts_bench.testing import CHECKS, check_agent
from lts_bench.testing.conformance import run_agent

pytest.importorskip("tianshou", reason="the extra 'rl' is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

import torch  # noqa: E402

from lts_bench.agents._tianshou import BatchedEnv  # noqa: E402
from lts_bench.agents.dqn import DQNAgent, MaskedQPolicy, Values  # noqa: E402
from lts_bench.envs import ShardVectorEnv  # noqa: E402


def test_it_passes_every_check():
    results = check_agent(DQNAgent, ToyTask())
    assert [result.name for result in results] == list(CHECKS)
    assert [result for result in results if not result.passed] == []


def test_later_strategies_are_better_than_earlier_ones():
    task = Watched(ToyTask(1))
    run_agent(DQNAgent, task, 800)
    assert np.mean(task.goodputs[-200:]) > 1.3 * np.mean(task.goodputs[:100])


@pytest.fixture()
def env() -> BatchedEnv:
    return BatchedEnv(ShardVectorEnv(2, task=ToyTask()))


def values_of(env: BatchedEnv) -> Values:
    torch.manual_seed(0)
    return Values(env.tokens, 8, env.episodes.widest_operator)


def test_values_of_illegal_choices_are_minus_infinity(env):
    space = env.env.problem.space
    values = values_of(env)
    at_start = values(env.reset()[0])
    assert at_start.shape[1] == max(space.sizes) and torch.isfinite(at_start[:, : space.sizes[0]]).all()
    observations, *_ = env.step(np.array([3, 4]))
    for row, index in zip(values(observations), (3, 4), strict=True):
        assert torch.isfinite(row).tolist() == space.mask(index)[1, : len(row)].tolist()


def test_rows_of_both_kinds_have_the_values_that_they_have_alone(env):
    values = values_of(env)
    start = env.reset()[0][:1]
    later = env.step(np.array([3, 4]))[0][:1]
    both = values(np.concatenate((start, later)))
    assert torch.equal(both[:1], values(start))
    assert torch.equal(both[1:, : env.episodes.widest_operator], values(later))


def test_degrees_that_share_a_value_share_what_is_learned_of_it(env):
    values = values_of(env)
    pipelined = torch.as_tensor(env.env.problem.space.degrees[:, 1] == 2)
    with torch.no_grad():
        values.degrees.weight[env.tokens.degrees[pipelined.numpy(), 1]] = 2.0
        degrees = values(env.reset()[0])[0, : len(pipelined)]
    assert set(degrees[pipelined].tolist()) == {2.0} and set(degrees[~pipelined].tolist()) == {0.0}


def test_exploration_draws_every_legal_choice_and_no_other(env):
    policy = MaskedQPolicy(model=values_of(env), action_space=env.action_space[0], eps_training=1.0)
    env.reset()
    observations, *_ = env.step(np.array([3, 4]))
    batch = type("Observed", (), {"obs": observations})
    np.random.seed(0)  # noqa: NPY002
    drawn = [policy.add_exploration_noise(np.zeros(2, dtype=np.int64), batch) for _ in range(300)]
    for column, index in zip(np.array(drawn).T, (3, 4), strict=True):
        assert sorted(set(column)) == np.flatnonzero(env.env.problem.space.mask(index)[1]).tolist()
