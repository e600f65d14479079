"""What results say about the claims: duels by hand, and the page."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from made_rows import PROVENANCE, make_row

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.report.claims import Evidence, ahead
from lts_bench.report.claims_page import claims_page
from lts_bench.results.schema import Row
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload
from lts_bench.task import Task

CURRENT = msgspec.structs.replace(PROVENANCE, cost_model=COST_MODEL_VERSION)
WORKLOAD = Workload(1024, 1024, Slo(ttft_ms=2000.0, tpot_ms=50.0))
PLACE = "llama-3.1-8b/h100x8"


def spec(name: str, feedback: Any = "graded") -> TaskSpec:
    return TaskSpec(f"{PLACE}/{name}", "llama-3.1-8b", "h100x8", WORKLOAD, feedback=feedback)


SUITE = Suite(
    name="claims", description="d", tasks=(spec("easy"), spec("hard"), spec("hard-flat", "flat")), agents=("l2s",),
    seeds=2, budget="e50",
)  # fmt: skip


def rows(scores: dict[str, list[tuple[float, float]]], track: str = "search", **changes: Any) -> list[Row]:
    """Make rows from both seeds' scores of each task."""
    return [
        make_row(agent, task.name, seed, score, track=track, provenance=CURRENT, **changes)
        for agent, cells in scores.items()
        for task, both in zip(SUITE.tasks, cells, strict=True)
        for seed, score in enumerate(both, start=1)
    ]


def evidence() -> Evidence:
    searchers = {
        "l2s": [(0.8, 1.0), (0.9, 0.9), (0.5, 0.7)],
        "evolution": [(0.8, 1.0), (0.2, 0.3), (0.0, 0.0)],
        "annealing": [(1.0, 1.0), (1.0, 1.0), (0.6, 0.6)],
    }
    return Evidence(
        SUITE, rows(searchers) + rows({"megatron_search": [(1.0, 1.0), (0.5, 0.5), (0.5, 0.5)]}, "heuristic")
    )


def test_a_duel_by_hand():
    duel = evidence().duel("l2s", "evolution", "graded")
    assert duel.ratios == pytest.approx({f"{PLACE}/easy": 1.0, f"{PLACE}/hard": 3.6})
    assert duel.highest == (pytest.approx(3.6), f"{PLACE}/hard")
    assert duel.reached(3.5) == 1
    assert duel.geometric_mean == pytest.approx(math.sqrt(3.6))
    assert duel.difference == pytest.approx((0.0 + 0.65) / 2)
    # On the first task the pairs are equal; on the second they differ by 0.7 or 0.6 in each seed.
    assert duel.interval == pytest.approx((0.3, 0.35))


def test_a_rival_that_finds_nothing_is_infinitely_behind():
    duel = evidence().duel("l2s", "evolution", "flat")
    assert duel.ratios == {f"{PLACE}/hard-flat": math.inf}
    assert math.isnan(duel.geometric_mean)


def test_where_neither_finds_anything_there_is_no_ratio():
    nothing = {agent: [(0.0, 0.0)] * 3 for agent in ("l2s", "evolution", "megatron_search")}
    duel = Evidence(SUITE, rows(nothing)).duel("l2s", "evolution", "graded")
    assert np.isnan(list(duel.ratios.values())).all()
    assert duel.reached(1.0) == 0
    assert math.isnan(duel.highest[0])


def test_tasks_that_leave_room_are_counted_and_those_where_it_is_used():
    assert ahead(evidence(), {0: 1.0, 1: 0.52}, 1.06) == (1, 0)
    assert ahead(evidence(), {0: 1.0, 1: 0.54}, 1.06) == (1, 1)


def test_a_missing_cell_is_an_error_and_older_cost_models_do_not_count():
    complete = rows({"l2s": [(0.5, 0.5)] * 3})
    with pytest.raises(InputError, match="cell of l2s is missing"):
        Evidence(SUITE, complete[:-1])
    old = msgspec.structs.replace(CURRENT, cost_model="0")
    with pytest.raises(InputError, match="cell of l2s is missing"):
        Evidence(SUITE, [*complete[:-1], msgspec.structs.replace(complete[-1], provenance=old)])


@pytest.mark.parametrize("left_out", ["l2s", "evolution", "megatron_search"])
def test_without_an_agent_to_compare_there_is_one_line(left_out: str):
    agents = {agent: [(0.5, 0.5)] * 3 for agent in ("l2s", "evolution", "megatron_search") if agent != left_out}
    with pytest.raises(InputError, match=f"claims: agent: has no results of this agent .got '{left_out}'"):
        Evidence(SUITE, rows(agents))


def test_a_newer_version_takes_the_place_of_an_older_one():
    scores = {agent: [(0.5, 0.5)] * 3 for agent in ("l2s", "evolution", "megatron_search")}
    newer = rows({"l2s": [(0.9, 0.9)] * 3}, version="10") + rows({"l2s": [(0.7, 0.7)] * 3}, version="9")
    assert Evidence(SUITE, rows(scores) + newer).scores["l2s"].tolist() == [[0.9, 0.9]] * 3


def test_the_page_tells_verdicts_and_what_changes():
    task = Task(SUITE.tasks[0])
    strategy = task.space.decode(task.space.sample(1, np.random.default_rng(0))[0])
    made = evidence()
    cells = made.rows["annealing"]
    for key, row in cells.items():
        best = msgspec.structs.replace(row.best, strategy=strategy.to_json()) if row.best else None
        cells[key] = msgspec.structs.replace(row, best=best)
    page = claims_page(made)
    assert "3.5 × is reached against some metaheuristic on 1 of 2 tasks. l2s is ahead of `evolution`." in page
    assert "behind `annealing`" in page
    assert (
        "at least 1.06 × `megatron_search` on 1 of 2 tasks; l2s is on 1 of these, the best search agent on 1." in page
    )
    assert f"| {PLACE}/hard | `annealing` | 1.000 | {strategy.degrees.label()} |" in page
