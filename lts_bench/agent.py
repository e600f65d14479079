"""The agent's contract, and an adapter for agents that ask and are told."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lts_bench.budget import BudgetExhausted
from lts_bench.specs.failure import InputError, did_you_mean

if TYPE_CHECKING:
    from lts_bench.problem import Problem

TRACKS = ("search", "heuristic", "pretrained", "model_based", "oracle")
"""What an agent may use, ranked apart."""


class Agent(ABC):
    """Something that finds strategies.

    A run may spend the problem's budget and no more. Its answer is the best strategy that was evaluated, whatever
    `run` returns. `BudgetExhausted` may leave `run`: it ends the run. All randomness comes from the given generator.

    Attributes:
        name: as on the board.
        version: changes whenever results may.
        track: one of `TRACKS`.
        anytime: whether the agent never looks at the budget, so that a short run is the beginning of a long one.
        defaults: its parameters and their default values.
        parameters: the values of this agent's parameters; part of a run's identity.

    Example:
        >>> class Random(Agent):
        ...     name, version, track = "mine", "1", "search"
        ...     def run(self, problem, rng):
        ...         problem.evaluate(problem.space.sample(problem.remaining, rng))
    """

    name: ClassVar[str]
    version: ClassVar[str]
    track: ClassVar[str]
    anytime: ClassVar[bool] = False
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, **parameters: Any) -> None:
        """Set parameters that differ from the defaults."""
        for key in parameters:
            if key not in self.defaults:
                hint = did_you_mean(key, self.defaults)
                raise InputError(f"no such parameter{hint}", source=self.name, field=key, legal=tuple(self.defaults))
        self.parameters: dict[str, Any] = {**self.defaults, **parameters}

    @abstractmethod
    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Search for good strategies with ``problem.evaluate``."""


class AskTell(Agent):
    """An agent that proposes vectors and is told their answers.

    It is asked for full batches until the budget is spent, so it never learns the budget. Nothing is told of a batch
    that the budget cut short.
    """

    batch: ClassVar[int] = 32

    @abstractmethod
    def start(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin a run: all state of an earlier one is void."""

    @abstractmethod
    def ask(self, n: int) -> np.ndarray:
        """Return up to n vectors to evaluate; none ends the run."""

    @abstractmethod
    def tell(self, vectors: np.ndarray, answers: np.ndarray) -> None:
        """Learn from the answers to the vectors asked for last."""

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Ask, evaluate and tell until the budget is spent."""
        self.start(problem, rng)
        with contextlib.suppress(BudgetExhausted):
            while problem.remaining and len(vectors := self.ask(self.batch)):
                self.tell(vectors, problem.evaluate(vectors))
