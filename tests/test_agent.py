"""The agent's contract and the ask-and-tell adapter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.agent import Agent, AskTell
from lts_bench.budget import Budget
from lts_bench.problem import LocalProblem
from lts_bench.specs.failure import InputError


class Parrot(AskTell):
    """Asks for the same vector again and again, at most ``most`` times."""

    name, version, track = "parrot", "1", "search"
    defaults: ClassVar = {"most": 1_000}
    batch = 4

    def start(self, problem, rng):
        self.vector, self.told = problem.space.sample(1, rng), []

    def ask(self, n):
        left = self.parameters["most"] - 4 * len(self.told)
        return np.repeat(self.vector, min(n, left), axis=0)

    def tell(self, vectors, answers):
        self.told.append((vectors, answers))


def run(agent: Agent, evaluations: int) -> LocalProblem:
    problem = LocalProblem.of(ToyTask(), Budget("test", evaluations, 1.0))
    agent.run(problem, np.random.default_rng(0))
    return problem


def test_an_agent_must_define_run():
    with pytest.raises(TypeError, match="abstract"):
        Agent()


def test_parameters_are_the_defaults_with_the_given_values():
    assert Parrot().parameters == {"most": 1_000}
    assert Parrot(most=3).parameters == {"most": 3}
    assert Parrot.defaults == {"most": 1_000}


def test_unknown_parameters_are_refused():
    with pytest.raises(InputError, match="did you mean 'most'"):
        Parrot(mots=3)


@pytest.mark.parametrize("evaluations", [1, 3, 4, 5, 16])
def test_ask_and_tell_uses_exactly_the_budget(evaluations):
    agent = Parrot()
    assert run(agent, evaluations).remaining == 0
    assert len(agent.told) == evaluations // 4


def test_ask_and_tell_tells_the_answers_to_what_was_asked():
    agent = Parrot()
    run(agent, 8)
    for vectors, answers in agent.told:
        assert answers.tobytes() == ToyTask().evaluate(vectors).tobytes()


def test_asking_for_nothing_ends_the_run():
    assert run(Parrot(most=8), 100).meter.used == 8
