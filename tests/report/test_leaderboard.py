from __future__ import annotations

import msgspec
import pytest
from made_rows import COST, OPTIMUM, PROVENANCE, grid, make_row, make_rows

from lts_bench.report.leaderboard import make_board
from lts_bench.results.schema import Replay, Row, Status
from lts_bench.specs.failure import InputError


def placed(rows: list[Row], **size: int) -> list[tuple[int | None, str, float | None]]:
    return [(entry.rank, entry.agent, entry.score) for entry in make_board(grid(**size), rows).entries]


def test_ties_share_a_rank_and_stand_by_name() -> None:
    rows = make_rows({"b": 100.0, "c": 99.0, "a": 100.0})
    assert placed(rows) == [(1, "a@1", 100.0), (1, "b@1", 100.0), (3, "c@1", 99.0)]
    assert placed(rows) == placed(rows[::-1])


def test_zero_is_a_score_and_agents_with_missing_cells_stand_unranked_below() -> None:
    rows = make_rows({"ten": 10.0, "zero": None})
    partial = make_rows({"almost": 99.0})[:-1]
    assert placed(rows + partial) == [(1, "ten@1", 10.0), (2, "zero@1", 0.0), (None, "almost@1", None)]
    assert make_board(grid(), rows + partial).missing == 1


@pytest.mark.parametrize("status", [Status.CRASH, Status.OOM, Status.INVALID])
def test_a_failed_cell_scores_nothing(status: Status) -> None:
    assert make_row(score=0.5, status=status).score == 0.0


def test_a_timeout_keeps_its_best() -> None:
    assert make_row(score=0.5, status=Status.TIMEOUT).score == 0.5


def test_a_score_is_the_share_of_the_optimum_whatever_the_reference() -> None:
    assert make_row(score=0.5, reference=1.0).score == make_row(score=0.5, reference=1e3).score == 0.5


def test_rows_measured_against_a_bound_are_counted() -> None:
    bound = msgspec.structs.replace(OPTIMUM, certified=False)
    rows = make_rows({"a": 1.0}) + make_rows({"b": 1.0}, optimum=bound)
    assert (make_board(grid(), rows).bounds, make_board(grid(), rows[:6]).bounds) == (6, 0)


def test_rows_without_an_optimum_must_run_again() -> None:
    with pytest.raises(InputError, match=r"optimum: .*run the cell again"):
        make_board(grid(), make_rows({"a": 1.0}, optimum=None))


REPLAY = Replay(offered_requests_per_s=9.0, attainment=0.75, goodput_per_npu=150.0)


def replayed(rows: list[Row], replay: Replay | None = REPLAY) -> tuple[float | None, float | None]:
    (entry,) = make_board(grid(), [msgspec.structs.replace(row, replay=replay) for row in rows]).entries
    return entry.attainment, entry.replayed_goodput


def test_replays_are_means_over_cells_and_an_unsolved_one_is_0() -> None:
    rows = make_rows({"a": 1.0})
    assert replayed(rows) == (0.75, 0.75)
    unsolved = msgspec.structs.replace(rows[0], status=Status.CRASH)
    assert replayed([unsolved, *rows[1:]]) == pytest.approx((0.75 * 5 / 6, 0.75 * 5 / 6))


def test_there_is_no_mean_where_cells_are_missing_or_were_not_replayed() -> None:
    rows = make_rows({"a": 1.0})
    assert replayed(rows, None) == replayed(rows[1:]) == (None, None)
    assert replayed(rows, msgspec.structs.replace(REPLAY, goodput_per_npu=None)) == (0.75, None)


def test_seconds_and_paths_of_a_run_do_not_matter() -> None:
    rows = make_rows({"a": 1.0, "b": 1.1})
    slower = msgspec.structs.replace(COST, wall_s=99.0, agent_cpu_s=9.0)
    again = make_board(grid(), [msgspec.structs.replace(row, cost=slower) for row in rows])
    assert make_board(grid(), rows).entries == again.entries


def test_tracks_are_ranked_apart_and_the_oracle_is_not() -> None:
    rows = make_rows({"a": 1.0}) + make_rows({"o": 3.0}, track="oracle") + make_rows({"h": 2.0}, track="heuristic")
    assert placed(rows) == [(1, "a@1", 1.0), (1, "h@1", 2.0), (None, "o@1", 3.0)]


def test_a_statistical_tie_shares_a_rank() -> None:
    scores = {"a": (1.0, 1.2, 0.8), "b": (1.1, 0.9, 1.1), "c": (0.2, 0.3, 0.1)}
    rows = [make_row(agent, seed=i, score=score) for agent, row in scores.items() for i, score in enumerate(row, 1)]
    assert [rank for rank, _, _ in placed(rows, tasks=1)] == [1, 1, 3]


def test_rows_outside_the_grid_do_not_count() -> None:
    rows = make_rows({"a": 1.0})
    others = [make_row("x", budget="e100"), make_row("y", seed=9), make_row("z", "other/c/0")]
    assert placed(rows + others) == placed(rows)


def test_cost_models_are_never_mixed() -> None:
    newer = make_rows({"a": 1.0}, provenance=msgspec.structs.replace(PROVENANCE, cost_model="10"), version="2")
    older = make_rows({"a": 2.0}, provenance=msgspec.structs.replace(PROVENANCE, cost_model="9"))
    board = make_board(grid(), older + newer)
    assert [entry.agent for entry in board.entries] == ["a@2"]
    assert board.stale == 6


def test_two_runs_of_one_cell_are_refused() -> None:
    rows = [make_row(), make_row(run_id="0" * 64, parameters={"rate": 1})]
    with pytest.raises(InputError, match="mine@1"):
        make_board(grid(), rows)


def test_counts_of_an_entry() -> None:
    rows = make_rows({"a": 1.0}, tasks=1) + make_rows({"a": None}, tasks=2)[3:]
    (entry,) = make_board(grid(), rows).entries
    assert (entry.solved, entry.cells, entry.score) == (3, 6, 0.5)
    assert entry.statuses == {"no_solution": 3, "ok": 3}
    assert entry.first_feasible is None


def test_scores_per_task_are_means_over_seeds_or_nothing() -> None:
    rows = make_rows({"a": 1.0})
    board = make_board(grid(), rows[:-1])
    assert board.task_scores == {"m/c/0": {"a@1": 1.0}, "m/c/1": {"a@1": None}}
