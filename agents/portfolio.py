"""A portfolio: a surrogate while little is known, edits that it screens, local search from what they have found."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np

from lts_bench.agents._screening import Screening
from lts_bench.agents.local_search import LocalSearch
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem


class Portfolio(LocalSearch):
    """`Screening` for the first ``modelled`` evaluations, iterated local search from the best of them afterwards.

    The surrogate needs a third of the evaluations of local search to come near a good strategy and then stays there;
    local search leaves local optima, of which a strategy's operators have many.

    Tuned at e1k on 54 problems from 44 tasks of the suite train, 23 of them with limits tightened until at most one
    strategy in 5,000 is feasible, 2 to 4 seeds each, some 40 settings and variants, 5 million evaluations: ``modelled``
    300, 500, 700 and 1,000, ``searched`` 0, 32 and 200 (better where a strategy has many operators), both kinds of
    candidates in every batch, edits with and without letters of axes and of runs of operators, 8 and 16 edits for each
    evaluation, batches of 4 and 8, candidates from a beam search of the surrogate. Letters that fit together gained
    most: in six of ten edits 0.05 of the optimum (in none 0.83), in the first strategies too another 0.03.
    """

    name, version, track, anytime = "portfolio", "3", "search", True
    defaults: ClassVar[dict[str, Any]] = LocalSearch.defaults | {"modelled": 500}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Ask the surrogate, then descend and kick until the budget is spent."""
        self.begin(problem, rng)
        screening = Screening()
        screening.start(problem, rng)
        spent = 0
        with contextlib.suppress(BudgetExhausted):
            while spent < self.parameters["modelled"]:
                vectors = screening.ask(screening.batch)
                answers = problem.evaluate(vectors)
                screening.tell(vectors, answers)
                self.remember(vectors, answers)
                spent += len(vectors)
            self.search()
