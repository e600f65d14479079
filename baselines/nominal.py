"""The nominal optimum, evaluated once: what knowing the cost model is worth on a machine of other constants."""

from __future__ import annotations

import numpy as np

from lts_bench.agent import Agent
from lts_bench.exact import optimum
from lts_bench.nominal import nominal_task
from lts_bench.problem import Problem


class Nominal(Agent):
    """The certified optimum of the nominal task, evaluated once on the machine at hand.

    Where no strategy is feasible on the nominal machine, which no suite has, it evaluates nothing.
    """

    name, version, track, anytime = "nominal", "1", "model_based", True

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Solve the nominal task and evaluate its best strategy."""
        best = optimum(nominal_task(problem.nominal))
        if best.vector is not None:
            problem.evaluate(best.vector[np.newaxis])
