"""A genetic algorithm on the choices, with pymoo."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.config import Config
from pymoo.core.mutation import Mutation
from pymoo.core.problem import Problem as PymooProblem
from pymoo.core.repair import Repair
from pymoo.core.sampling import Sampling
from pymoo.operators.crossover.ux import UniformCrossover

from lts_bench.agent import Agent
from lts_bench.agents._moves import draw_choices, near_degrees
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem

Config.warnings["not_compiled"] = False


class Evolution(Agent):
    """Genetic algorithm: tournaments, uniform crossover, near degrees, feasible before infeasible.

    Population 20 (40 tried) and moves 0.25 were chosen on eight tasks at e1k, seven of them of the suite large-npu.
    """

    name, version, track, anytime = "evolution", "2", "search", True
    defaults: ClassVar[dict[str, Any]] = {"population": 20, "moves": 0.25, "mutations": 1.5}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Breed until the budget is spent; where no new offspring can be bred, sample."""
        algorithm = GA(
            pop_size=self.parameters["population"],
            sampling=LegalSampling(),
            crossover=UniformCrossover(),
            mutation=ResamplingMutation(self.parameters["moves"], self.parameters["mutations"]),
            repair=LegalRepair(),
        )
        algorithm.setup(Strategies(problem), seed=int(rng.integers(2**31)), termination=("n_gen", np.inf))
        with contextlib.suppress(BudgetExhausted):
            while problem.remaining and algorithm.has_next():
                algorithm.next()
            while problem.remaining:
                problem.evaluate(problem.space.sample(self.parameters["population"], rng))


class Strategies(PymooProblem):  # type: ignore[misc]
    """Minimise the negative goodput; the graded violations are the constraint."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.space = problem, problem.space
        sizes = self.space.sizes
        super().__init__(n_var=len(sizes), n_obj=1, n_ieq_constr=1, xl=0, xu=sizes - 1, vtype=int)

    def _evaluate(self, x: np.ndarray, out: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        answers = self.problem.evaluate(x.astype(np.int64))
        out["F"] = -answers["goodput_per_npu"][:, np.newaxis]
        out["G"] = np.log1p(answers["violation"]).sum(axis=1, keepdims=True)


class LegalSampling(Sampling):  # type: ignore[misc]
    """The first population: uniform legal strategies."""

    def _do(
        self, problem: Strategies, n_samples: int, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> np.ndarray:
        return problem.space.sample(n_samples, random_state)


class ResamplingMutation(Mutation):  # type: ignore[misc]
    """A share of the degrees moves to near ones; some operators' choices, a given number on average, are drawn anew."""

    def __init__(self, moves: float, mutations: float) -> None:
        super().__init__()
        self.moves, self.mutations = moves, mutations

    def _do(
        self, problem: Strategies, x: np.ndarray, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> np.ndarray:
        degrees = x[:, 0].astype(np.int64)
        moved = random_state.random(len(x)) < self.moves
        degrees[moved] = near_degrees(problem.space, degrees[moved], random_state)
        kept = random_state.random(x.shape) >= self.mutations / x.shape[1]
        kept[:, 0] = False
        return np.where(kept, x, draw_choices(problem.space, degrees, random_state))


class LegalRepair(Repair):  # type: ignore[misc]
    """Choices that new degrees forbid become the first legal ones."""

    def _do(self, problem: Strategies, x: np.ndarray, **kwargs: Any) -> np.ndarray:
        return problem.space.repair(x.astype(np.int64))
