"""The attention policy keeps to the contract, starts from the elites and learns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import ToySpace, ToyTask

from lts_bench.baselines.random import RandomSearch
from lts_bench.budget import parse_budget
from lts_bench.problem import LocalProblem
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

torch = pytest.importorskip("torch", reason="the extra 'rl' is not installed")

from lts_bench.agents._edits import Editor, Edits  # noqa: E402
from lts_bench.agents._history import History  # noqa: E402
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


def scene(elites: int) -> tuple[Policy, Edits, np.ndarray]:
    """An untrained policy, all edits of some strategies, and these."""
    torch.manual_seed(0)
    starts = SPACE.sample(3, np.random.default_rng(0))
    editor = Editor(SPACE, near=4, flat=0.05, rng=np.random.default_rng(0))
    edits = editor.edits(starts, np.ones(3), starts[:elites], History(SPACE, 1))
    return Policy(SPACE, editor.kinds, elites, hidden=16), edits, starts


def test_it_beats_random_search():
    for task in map(ToyTask, range(3)):
        random = run_agent(RandomSearch, task, 300).best.goodput_per_npu
        assert run_agent(L2S, task, 300).best.goodput_per_npu > 1.2 * random


@pytest.mark.parametrize("elites", [0, 3])
def test_all_scores_begin_as_0(elites: int):
    policy, edits, starts = scene(elites)
    assert policy(edits, starts, starts[:elites]).tolist() == [0.0] * len(edits.prior)


def test_trained_scores_depend_on_the_elites_that_are_seen():
    policy, edits, starts = scene(3)
    torch.nn.init.normal_(policy.network[-1].weight)
    seen, others = (policy(edits, starts, elites) for elites in (starts, starts[::-1].copy()))
    assert (seen - others).abs().max() > 1e-3


def test_what_improved_becomes_likelier_and_with_it_the_same_edit_of_other_starts():
    agent = L2S(learning_rate=0.03)
    agent.start(LocalProblem.of(ToyTask(), parse_budget("e100")), np.random.default_rng(0))
    answers = ToyTask().evaluate(vectors := agent.ask(32))
    agent.tell(vectors, answers)
    vectors = agent.ask(32)
    edits, chosen, before = agent._edits, agent._chosen, agent._drawn_from
    answers = np.zeros(len(vectors), dtype=answers.dtype)
    answers["feasible"], answers["goodput_per_npu"][0] = True, 1e6
    agent.tell(vectors, answers)
    gained = (agent._scored() - before).detach().numpy()
    assert gained[chosen[0]] > 0
    alike = (edits.kinds == edits.kinds[chosen[0]]) & (edits.vectors[:, 0] == edits.vectors[chosen[0], 0])
    assert gained[alike].mean() > gained.mean()


def test_advantages_are_of_improvements_alone():
    gains = advantages(np.array([2.0, 1.0, 1.9, -3.0]), np.array([1.9, 2.0, 1.9, -1.0]), best=2.0).tolist()
    assert gains[0] > 0 > gains[1] == gains[2] == gains[3]
    assert sum(gains) == pytest.approx(0.0, abs=1e-5)
    assert advantages(np.ones(3), np.ones(3), best=1.0).tolist() == [0.0] * 3


def test_improvements_far_below_the_best_hardly_count():
    gains = advantages(np.array([0.4, 2.0, 0.0]), np.array([0.2, 1.9, 0.0]), best=2.0).tolist()
    assert gains[1] > 10 * (gains[0] - gains[2])


@pytest.mark.parametrize("devices", [1, 8])
def test_without_exploration_and_where_all_edits_were_tried_it_goes_on(devices: int):
    agent, task = L2S(flat=0.0, exploration=0.0, elites=2, near=1), ToyTask(memory_limit_bytes=2.0)
    task.space = ToySpace(devices)
    problem = LocalProblem.of(task, parse_budget("e1k"))
    agent.run(problem, np.random.default_rng(0))
    assert problem.remaining == 0
    assert all(torch.isfinite(each).all() for each in agent._policy.parameters())


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
