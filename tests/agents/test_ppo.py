"""PPO keeps to the agent's contract and learns."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.testing import CHECKS, check_agent
from lts_bench.testing.conformance import run_agent

pytest.importorskip("tianshou", reason="the extra 'rl' is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

import torch  # noqa: E402
from tianshou.data import Batch  # noqa: E402

from lts_bench.agents.ppo import BatchedEnv, MaskedActor, PPOAgent  # noqa: E402
from lts_bench.envs import ShardVectorEnv  # noqa: E402


def test_it_passes_every_check():
    results = check_agent(PPOAgent, ToyTask())
    assert [result.name for result in results] == list(CHECKS)
    assert [result for result in results if not result.passed] == []


def test_later_strategies_are_better_than_earlier_ones():
    task, seen = ToyTask(1), []

    class Watched:
        space, features, feedback = task.space, task.features, "graded"

        def evaluate(self, vectors):
            answers = task.evaluate(vectors)
            seen.extend(answers["goodput_per_npu"])
            return answers

    run_agent(PPOAgent, Watched(), 800)
    assert np.mean(seen[-200:]) > 1.3 * np.mean(seen[:100])


def test_probabilities_are_a_distribution_on_the_legal_choices_and_none_is_zero():
    torch.manual_seed(0)
    actor = MaskedActor(inputs=3, hidden=8, choices=5, uniform=0.1)
    mask = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 1, 0]], dtype=np.int8)
    obs = Batch(obs=np.full((2, 3), 50.0, dtype=np.float32), mask=mask)
    with torch.no_grad():
        probabilities, state = actor(obs)
    assert state is None
    assert probabilities.sum(dim=1).tolist() == pytest.approx([1.0, 1.0])
    assert (probabilities[mask == 0] == 0).all()
    assert probabilities[0][mask[0] == 1].min() >= 0.1 / 3
    assert probabilities[1, 3] == pytest.approx(1.0)


def test_tianshou_resets_some_episodes_only():
    env = BatchedEnv(ShardVectorEnv(3, task=ToyTask()))
    env.reset()
    env.step(np.array([1, 2, 3]))
    observations, infos = env.reset([2])
    assert len(observations) == len(infos) == 1
    assert env.env.episodes.positions.tolist() == [1, 1, 0]


def test_importing_it_leaves_numbas_compiler_on():
    code = (
        "import warnings; warnings.simplefilter('ignore'); import lts_bench.agents.ppo, numba, os;"
        "f = numba.njit(lambda x: x + 1); print(hasattr(f, 'py_func'), f(1), os.environ.get('NUMBA_DISABLE_JIT'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["True", "2", "None"]
