"""The conformance suite passes the built-in agents and catches agents that break the contract."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.agent import Agent
from lts_bench.registry import load_agent
from lts_bench.testing import CHECKS, AgentConformance, check_agent


class OnToyTask(AgentConformance):
    def task(self):
        return ToyTask()


class TestRandom(OnToyTask):
    agent = load_agent("random")


class TestEvolution(OnToyTask):
    agent = load_agent("evolution")


class TestMegatronSearch(OnToyTask):
    agent = load_agent("megatron_search")


class Honest(Agent):
    name, version, track, anytime = "honest", "1", "search", True

    def run(self, problem, rng):
        while problem.remaining:
            problem.evaluate(problem.space.sample(8, rng))


class Nameless(Honest):
    name = ""


class OddParameter(Honest):
    defaults = {"layers": [1, 2]}  # noqa: RUF012


class Lazy(Honest):
    def run(self, problem, rng):
        problem.evaluate(problem.space.sample(min(20, problem.remaining), rng))


class Needy(Honest):
    def run(self, problem, rng):
        if problem.budget.evaluations < 10:
            raise ValueError("needs more\nthan that")
        super().run(problem, rng)


class Unseeded(Honest):
    def run(self, problem, rng):
        super().run(problem, np.random.default_rng())


class BudgetAware(Honest):
    def run(self, problem, rng):
        super().run(problem, np.random.default_rng(problem.budget.evaluations))


class Careless(Honest):
    def run(self, problem, rng):
        problem.evaluate(rng.integers(problem.space.sizes, size=(problem.remaining, len(problem.space.sizes))))


class Hopeful(Honest):
    def run(self, problem, rng):
        vectors = problem.space.sample(problem.remaining, rng)
        if not problem.evaluate(vectors[: len(vectors) // 2 + 1])["feasible"].any():
            return
        super().run(problem, rng)


def failed(agent: type[Agent]) -> dict[str, str]:
    return {result.name: result.message for result in check_agent(agent, ToyTask()) if not result.passed}


def test_an_honest_agent_passes_every_check():
    assert [result.name for result in check_agent(Honest, ToyTask())] == list(CHECKS)
    assert failed(Honest) == {}


@pytest.mark.parametrize(
    ("agent", "check", "words"),
    [
        (Nameless, "declaration", "no name"),
        (OddParameter, "declaration", "'layers'"),
        (Lazy, "budget", "20 of 100"),
        (Needy, "tiny_budget", "ValueError: needs more than that"),
        (Unseeded, "reproducible", "different vectors"),
        (BudgetAware, "anytime", "depend on the budget"),
        (Careless, "legal", "illegal vectors"),
        (Hopeful, "nothing_feasible", "51 of 100"),
    ],
)
def test_a_broken_agent_fails_the_check_that_names_its_fault(agent, check, words):
    assert words in failed(agent)[check]


def test_every_check_is_a_test_of_the_inheritable_class():
    assert {f"test_{name}" for name in CHECKS} == {name for name in vars(AgentConformance) if name.startswith("test_")}
