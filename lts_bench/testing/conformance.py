"""What every agent must keep to, as named checks on a task, and as a class that a test suite inherits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lts_bench.agent import TRACKS, Agent
from lts_bench.budget import Budget, BudgetExhausted, Meter
from lts_bench.problem import LocalProblem, Scorer

Nominal = dict[str, Any] | None


class CheckResult(NamedTuple):
    """The outcome of one check; ``message`` is empty where it passed."""

    name: str
    passed: bool
    message: str


class ContractError(AssertionError):
    """An agent breaks the contract; the message says how."""


def run_agent(
    agent: type[Agent], task: Scorer, evaluations: int, *, seed: int = 0, nominal: Nominal = None, feasible: bool = True
) -> Meter:
    """Run an agent with its default parameters as the harness does and return the meter.

    Args:
        agent: the class.
        task: gives the problem.
        evaluations: the budget.
        seed: of the agent's generator.
        nominal: for agents of the track ``model_based``.
        feasible: whether strategies that the task calls feasible stay so; else every one breaks the memory limit.
    """
    score = task.evaluate if feasible else partial(_never_feasible, task.evaluate)
    budget = Budget(f"e{evaluations}", evaluations, 3600.0)
    meter = Meter(score, budget, task.space, feedback=task.feedback)
    problem = LocalProblem(meter, task.features, nominal)
    with contextlib.suppress(BudgetExhausted):
        agent().run(problem, np.random.default_rng(seed))
    return meter


def check_declaration(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """Name, version and track are declared, and the parameters are plain values."""
    for attribute in ("name", "version", "track"):
        _require(bool(getattr(agent, attribute, "")), f"declares no {attribute}")
    _require(agent.track in TRACKS, f"track {agent.track!r} is none of {', '.join(TRACKS)}")
    for key, value in agent().parameters.items():
        _require(isinstance(value, bool | int | float | str), f"parameter {key!r} is no number, string or boolean")


def check_budget(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """The budget is kept, and used wholly by agents of the track ``search``."""
    used = run_agent(agent, task, 100, nominal=nominal).used
    _require(used > 0, "evaluates nothing")
    if agent.track == "search":
        _require(used == 100, f"uses {used} of 100 evaluations")


def check_tiny_budget(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """One evaluation, or three, are enough to run."""
    for evaluations in (1, 3):
        used = run_agent(agent, task, evaluations, nominal=nominal).used
        _require(used > 0, f"evaluates nothing with a budget of {evaluations}")


def check_reproducible(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """The same seed asks for the same vectors, also when other generators were used in between."""
    first = _recorded(agent, task, 100, seed=3, nominal=nominal)
    np.random.random(7)  # noqa: NPY002 (the global state must not matter)
    second = _recorded(agent, task, 100, seed=3, nominal=nominal)
    _require(np.array_equal(first, second), "two runs with one seed ask for different vectors")


def check_anytime(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """Of an agent that declares ``anytime``, a short run is the beginning of a long one."""
    if agent.anytime:
        short = _recorded(agent, task, 40, nominal=nominal)
        long = _recorded(agent, task, 100, nominal=nominal)
        _require(np.array_equal(short, long[: len(short)]), "declares anytime, but its choices depend on the budget")


def check_legal(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """Only legal vectors are asked for."""
    illegal = run_agent(agent, task, 100, nominal=nominal).illegal
    _require(illegal == 0, f"asks for {illegal} illegal vectors of 100")


def check_nothing_feasible(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> None:
    """A task without any feasible strategy is no reason to stop or to crash."""
    meter = run_agent(agent, task, 100, nominal=nominal, feasible=False)
    _require(meter.used == 100 or agent.track != "search", f"uses {meter.used} of 100 evaluations")


CHECKS: dict[str, Callable[..., None]] = {
    "declaration": check_declaration,
    "budget": check_budget,
    "tiny_budget": check_tiny_budget,
    "reproducible": check_reproducible,
    "anytime": check_anytime,
    "legal": check_legal,
    "nothing_feasible": check_nothing_feasible,
}
"""All checks by name; each raises `ContractError`, or lets the agent's own error through."""


def check_agent(agent: type[Agent], task: Scorer, nominal: Nominal = None) -> list[CheckResult]:
    """Run all checks; none stops the others, and an agent that crashes has failed one."""
    return [_result(name, check, agent, task, nominal) for name, check in CHECKS.items()]


class AgentConformance:
    """Inherit, name the agent and a task, and pytest runs all checks.

    Example:
        >>> class TestMine(AgentConformance):
        ...     agent = MyAgent
        ...     def task(self):
        ...         return lts_bench.make_task(model=..., cluster=..., workload=...)
    """

    agent: ClassVar[type[Agent]]
    nominal: ClassVar[Nominal] = None

    def task(self) -> Scorer:
        """Return the task to run on."""
        raise NotImplementedError

    def test_declaration(self) -> None:
        """See `check_declaration`."""
        check_declaration(self.agent, self.task(), self.nominal)

    def test_budget(self) -> None:
        """See `check_budget`."""
        check_budget(self.agent, self.task(), self.nominal)

    def test_tiny_budget(self) -> None:
        """See `check_tiny_budget`."""
        check_tiny_budget(self.agent, self.task(), self.nominal)

    def test_reproducible(self) -> None:
        """See `check_reproducible`."""
        check_reproducible(self.agent, self.task(), self.nominal)

    def test_anytime(self) -> None:
        """See `check_anytime`."""
        check_anytime(self.agent, self.task(), self.nominal)

    def test_legal(self) -> None:
        """See `check_legal`."""
        check_legal(self.agent, self.task(), self.nominal)

    def test_nothing_feasible(self) -> None:
        """See `check_nothing_feasible`."""
        check_nothing_feasible(self.agent, self.task(), self.nominal)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ContractError(message)


def _result(name: str, check: Callable[..., None], agent: type[Agent], task: Scorer, nominal: Nominal) -> CheckResult:
    try:
        check(agent, task, nominal)
    except ContractError as broken:
        return CheckResult(name, False, str(broken))
    except Exception as error:
        return CheckResult(name, False, " ".join(f"{type(error).__name__}: {error}".split()))
    return CheckResult(name, True, "")


class _Recording:
    """A task that keeps the vectors it is asked to score."""

    def __init__(self, task: Scorer) -> None:
        self.space, self.features, self.feedback = task.space, task.features, task.feedback
        self._score, self.vectors = task.evaluate, [np.empty((0, len(task.space.sizes)), dtype=np.int64)]

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        self.vectors.append(vectors.copy())
        return self._score(vectors)


def _recorded(agent: type[Agent], task: Scorer, evaluations: int, *, seed: int = 0, nominal: Nominal) -> np.ndarray:
    recording = _Recording(task)
    run_agent(agent, recording, evaluations, seed=seed, nominal=nominal)
    return np.concatenate(recording.vectors)


def _never_feasible(score: Callable[[np.ndarray], np.ndarray], vectors: np.ndarray) -> np.ndarray:
    answers = score(vectors)
    answers["violation"][:, 0] += np.where(answers["feasible"], 0.5, 0.0)
    answers["feasible"], answers["goodput_per_npu"] = False, 0.0
    return answers
