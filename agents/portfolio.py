"""A portfolio: a surrogate while little is known, local search when it has found a good region."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np

from lts_bench.agents.bayesian import Bayesian
from lts_bench.agents.local_search import LocalSearch
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem


class Portfolio(LocalSearch):
    """Bayesian optimisation for the first ``modelled`` evaluations, iterated local search from its best afterwards.

    The surrogate needs a third of the evaluations of local search to come near a good strategy and then stays there;
    local search leaves local optima, of which a strategy's operators have many.

    Tuned on 16 tasks of the suite train at e1k, 2 to 3 seeds: ``modelled`` 200 and 300, 80,000 evaluations.
    """

    name, version, track, anytime = "portfolio", "1", "search", True
    defaults: ClassVar[dict[str, Any]] = LocalSearch.defaults | {"modelled": 200}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Ask the surrogate, then descend and kick until the budget is spent."""
        self.begin(problem, rng)
        surrogate = Bayesian()
        surrogate.start(problem, rng)
        with contextlib.suppress(BudgetExhausted):
            for _ in range(0, self.parameters["modelled"], surrogate.batch):
                vectors = surrogate.ask(surrogate.batch)
                answers = problem.evaluate(vectors)
                surrogate.tell(vectors, answers)
                self.remember(vectors, answers)
            self.search()
