from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_rows import PROVENANCE, make_row

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.certificates import certificate_of
from lts_bench.report.rescore import rescore_document, rescore_line, rescored_row
from lts_bench.results.grids import Grid
from lts_bench.results.schema import Row, Status
from lts_bench.results.store import Stored
from lts_bench.specs.suite import Suite, load_suite
from lts_bench.task import Task

SPEC = load_suite("smoke").tasks[0]
TASK = Task(SPEC)
GRID = Grid.of(Suite("mini", "", ("random",), 2, "e50", (SPEC,)))
OLD = msgspec.structs.replace(PROVENANCE, cost_model="0")


def row(agent: str, seed: int, score: float, strategy: dict[str, Any], **changes: Any) -> Row:
    """Return a row of an older cost model with a score that this one gave, and a strategy."""
    made = make_row(agent, SPEC.name, seed, score, **({"provenance": OLD} | changes))
    return msgspec.structs.replace(made, best=msgspec.structs.replace(made.best, strategy=strategy))


def optimal(seed: int) -> dict[str, Any]:
    return certificate_of(TASK, seed).strategy


def stored(rows: list[Row]) -> Stored:
    return Stored({each.run_id: each for each in rows}, {"mini": GRID}, ())


def test_a_strategy_is_scored_as_the_current_cost_model_does() -> None:
    found = rescored_row(row("a", 1, 0.3, optimal(1)), SPEC)
    assert (found.score, found.provenance.cost_model) == (pytest.approx(1.0), COST_MODEL_VERSION)
    assert found.task_digest == TASK.digest


@pytest.mark.parametrize("strategy", [{"tp": 3}, {"no": 1}])
def test_a_strategy_that_is_none_any_more_scores_0(strategy: dict[str, Any]) -> None:
    found = rescored_row(row("a", 1, 0.9, strategy), SPEC)
    assert (found.status, found.best, found.score) == (Status.NO_SOLUTION, None, 0.0)


def test_ranks_are_shown_before_and_after() -> None:
    rows = [row("good", seed, 0.3, optimal(seed)) for seed in (1, 2)]
    rows += [row("bad", seed, 0.9, {"tp": 3}) for seed in (1, 2)]
    (suite,) = rescore_document(stored(rows))["suites"]
    ranks = {each["agent"]: (each["stored_rank"], each["rank"]) for each in suite["agents"]}
    assert ranks == {"good@1": (2, 1), "bad@1": (1, 2)}
    assert (suite["stored_versions"], suite["agree"]) == (["0"], False)
    assert rescore_line(suite).endswith("a preview: ranks count after a re-run")


def test_scores_that_agree_need_no_run() -> None:
    rows = [rescored_row(row("a", seed, 0.3, optimal(seed)), SPEC) for seed in (1, 2)]
    (suite,) = rescore_document(stored(rows))["suites"]
    assert suite["agree"]
    assert rescore_line(suite).endswith("all scores agree")


def test_of_a_cell_under_two_versions_the_later_counts() -> None:
    rows = [row("a", seed, 0.3, {"tp": 3}) for seed in (1, 2)]
    newer = msgspec.structs.replace(PROVENANCE, cost_model="1")
    rows += [row("a", seed, 0.4, optimal(seed), provenance=newer, run_id=f"{seed}" * 64) for seed in (1, 2)]
    (suite,) = rescore_document(stored(rows))["suites"]
    assert [each["score"] for each in suite["agents"]] == [pytest.approx(1.0)]
