from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import grid, make_row, make_rows

from lts_bench.report.cells import TARGETS, first_evaluations, scores_at, trace_scores
from lts_bench.report.curves import THRESHOLDS, anytime, places, profiles, reached_targets
from lts_bench.report.leaderboard import make_board
from lts_bench.report.statistics import log_area
from lts_bench.results.schema import Point, Row, Status, trace_digest


def with_trace(row: Row, *points: tuple[int, float, float]) -> Row:
    """Return a row whose trace has (evaluation, seconds, score)."""
    assert row.best is not None
    trace = tuple(Point(evaluation, seconds, 200.0 * score, (evaluation,)) for evaluation, seconds, score in points)
    best = msgspec.structs.replace(row.best, goodput_per_npu=trace[-1].goodput_per_npu)
    return msgspec.structs.replace(row, trace=trace, trace_digest=trace_digest(trace), best=best)


ROW = with_trace(make_row(), (2, 0.5, 0.6), (10, 2.0, 0.85), (40, 9.0, 1.0))


def test_the_best_score_so_far_is_that_of_the_last_improvement() -> None:
    found = scores_at(ROW, np.array([1.0, 2.0, 9.0, 10.0, 50.0]), "evaluation")
    assert found.tolist() == [0.0, 0.6, 0.6, 0.85, 1.0]
    assert scores_at(ROW, np.array([0.4, 0.5, 3.0]), "seconds").tolist() == [0.0, 0.6, 0.85]


def test_first_evaluations_of_targets() -> None:
    # Regrets 0.4, 0.15 and 0: targets 50 %, 20 %, the others.
    assert first_evaluations({("m/c/0", 1): ROW}).tolist() == [2.0, 10.0, 40.0, 40.0, 40.0, 40.0, 40.0]


@pytest.mark.parametrize("status", [Status.CRASH, Status.OOM])
def test_a_failed_cell_reaches_nothing(status: Status) -> None:
    failed = msgspec.structs.replace(ROW, status=status)
    assert trace_scores(failed).size == 0
    assert np.isinf(first_evaluations({("m/c/0", 1): failed})).all()
    assert scores_at(failed, np.array([50.0]), "evaluation").tolist() == [0.0]


def test_the_area_is_that_under_the_drawn_steps() -> None:
    firsts = np.array([1.0, 7.0, 50.0, np.inf])
    fine = np.geomspace(1, 50, 200_001)
    drawn = np.array([(firsts <= x).mean() for x in fine[::100]])
    assert log_area(firsts, 50) == pytest.approx(np.trapezoid(drawn, np.log(fine[::100])) / math.log(50), abs=1e-3)
    assert log_area(np.array([1.0]), 50) == 1.0
    assert log_area(np.array([np.inf]), 50) == 0.0


def test_curves_end_at_the_score_and_bands_hold_them() -> None:
    board = make_board(grid(), make_rows({"a": 1.0, "b": 0.5, "c": None}))
    for axis in ("evaluation", "seconds"):
        curve = anytime(board, axis)  # type: ignore[arg-type]
        assert curve.agents == ("a@1", "b@1", "c@1")
        assert curve.y[:, -1].tolist() == [1.0, 0.5, 0.0]
        assert (np.diff(curve.y, axis=1) >= 0).all()
        assert (curve.low <= curve.y + 1e-12).all()
        assert (curve.high >= curve.y - 1e-12).all()


def test_places_depend_on_the_budget_alone() -> None:
    assert places("e50", "evaluation")[[0, -1]].tolist() == [1, 50]
    assert places("e1k", "seconds")[[0, -1]] == pytest.approx([0.01, 600])


def test_all_targets_of_a_perfect_agent_are_reached() -> None:
    board = make_board(grid(), make_rows({"a": 1.0, "half": 0.5}))
    curve = reached_targets(board)
    # The second improvement of a made row is its last one, at evaluation 2.
    assert curve.y[0, curve.x >= 2].tolist() == [1.0] * int((curve.x >= 2).sum())
    assert curve.y[1, -1] == pytest.approx(1 / len(TARGETS))


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=2))
def test_the_area_under_a_profile_is_the_mean_score(scores: list[float]) -> None:
    rows = [
        make_row("a", task, seed, score) for task, score in zip(grid().tasks, scores, strict=True) for seed in (1, 2, 3)
    ]
    curve = profiles(make_board(grid(), rows))
    assert curve.y[0, 0] == 1.0
    assert curve.y[0, 1:].mean() == pytest.approx(np.mean(scores), abs=1 / (len(THRESHOLDS) - 1))
