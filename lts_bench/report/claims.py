"""The claims of "Learning to Shard" (arXiv 2509.00217) held against results: who beats whom, by how much, and where.

Agents are compared at the same budget on the same machines: a cell of one against the cell of the other with the same
task and seed. Scores are shares of the machine's optimum, so that their ratio is the ratio of the throughputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from lts_bench.report.cells import by_agent, current_rows, score_matrix, version_key
from lts_bench.report.statistics import board_score, bootstrap, interval
from lts_bench.results.grids import Grid
from lts_bench.results.schema import Row
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite

AGENT = "l2s"
METAHEURISTICS = ("evolution", "annealing", "local_search", "eda")
REFERENCE = "megatron_search"
MEGATRON = ("megatron", REFERENCE)
OVER_METAHEURISTICS = 3.5
OVER_MEGATRON = 1.06
"""Factors of throughput that the paper states: "up to" against metaheuristics, and over Megatron's heuristic."""


@dataclass(frozen=True)
class Duel:
    """One agent against another on the tasks of one kind of feedback.

    Attributes:
        ratios: mean score ÷ the rival's per task; infinite where the rival found nothing, NaN where neither did.
        difference: of the scores, mean over tasks of the mean over seeds.
        interval: of the difference at 95 %, by a paired bootstrap over seeds.
    """

    rival: str
    ratios: dict[str, float]
    difference: float
    interval: tuple[float, float]

    @property
    def highest(self) -> tuple[float, str]:
        """The highest ratio and its task."""
        known = {task: ratio for task, ratio in self.ratios.items() if not np.isnan(ratio)}
        return max(((ratio, task) for task, ratio in known.items()), default=(np.nan, ""))

    def reached(self, factor: float) -> int:
        """The number of tasks on which the ratio is at least a factor."""
        return sum(ratio >= factor for ratio in self.ratios.values())

    @property
    def geometric_mean(self) -> float:
        """Of the ratios on tasks that both solve; NaN where there are none."""
        both = [ratio for ratio in self.ratios.values() if np.isfinite(ratio) and ratio > 0]
        return float(np.exp(np.mean(np.log(both)))) if both else np.nan


class Evidence:
    """The rows of a suite as scores.

    Attributes:
        specs: the suite's tasks, by name; names are theirs.
        rows: of every agent's latest version, by task and seed.
        scores: (tasks, seeds) of every agent.
    """

    def __init__(self, suite: Suite, rows: Iterable[Row]) -> None:
        """Arrange rows.

        Raises:
            InputError: a cell of an agent is missing, or all of one without whom nothing can be said.
        """
        grid = Grid.of(suite)
        self.seeds, self.specs = grid.seeds, sorted(suite.tasks, key=lambda spec: spec.name)
        self.names = [spec.name for spec in self.specs]
        labelled = by_agent(current_rows(grid.own_rows(rows))).values()
        by_version = sorted(labelled, key=lambda cells: version_key(next(iter(cells.values())).version))
        self.rows = {next(iter(cells.values())).agent: cells for cells in by_version}
        for agent, cells in self.rows.items():
            for task, seed in product(self.names, self.seeds):
                if (task, seed) not in cells:
                    raise InputError(f"cell of {agent} is missing", source=suite.name, field=task, value=seed)
        for one_of in ((AGENT,), METAHEURISTICS, (REFERENCE,)):
            if not self.rows.keys() & set(one_of):
                raise InputError("has no results of this agent", source=suite.name, field="agent", value=one_of[0])
        self.scores = {agent: np.array(score_matrix(grid, self.rows[agent])) for agent in sorted(self.rows)}

    def rivals(self, named: Sequence[str]) -> list[str]:
        """Return those of some agents that have results."""
        return [name for name in named if name in self.scores]

    def at(self, feedback: str) -> list[int]:
        """Return the places of the tasks with a kind of feedback."""
        return [place for place, spec in enumerate(self.specs) if spec.feedback == feedback]

    def duel(self, agent: str, rival: str, feedback: str) -> Duel:
        """Compare two agents."""
        places = self.at(feedback)
        pair = np.array([self.scores[agent][places], self.scores[rival][places]])
        samples, (mine, theirs) = bootstrap(pair), pair.mean(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (mine / theirs).tolist()
        difference = board_score(pair)
        return Duel(
            rival,
            {self.names[place]: ratio for place, ratio in zip(places, ratios, strict=True)},
            float(difference[0] - difference[1]),
            interval(samples[0] - samples[1]),
        )

    def best(self, track: str, place: int) -> tuple[str, float]:
        """Return the agent of a track with the highest mean score on a task, and that score."""
        means = {agent: float(self.scores[agent][place].mean()) for agent in self._of(track)}
        return min(means.items(), key=lambda item: (-item[1], item[0]))

    def _of(self, track: str) -> list[str]:
        return [agent for agent, cells in sorted(self.rows.items()) if next(iter(cells.values())).track == track]

    def best_row(self, place: int) -> Row:
        """Return the row with the highest score on a task."""
        rows = [cells[self.names[place], seed] for cells in self.rows.values() for seed in self.seeds]
        return min(rows, key=lambda row: (-row.score, row.agent, row.seed))


def ahead(evidence: Evidence, agents: Mapping[int, float], factor: float) -> tuple[int, int]:
    """Count graded tasks whose optimum exceeds megatron_search by a factor, and those where scores (by place) do."""
    reference = evidence.scores[REFERENCE].mean(axis=1)
    places = [place for place in evidence.at("graded") if factor * reference[place] <= 1.0]
    return len(places), sum(agents[place] >= factor * reference[place] for place in places)
