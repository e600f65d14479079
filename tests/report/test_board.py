from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_rows import grid, make_rows

from lts_bench.report.board import board_texts, boards, differences, write_board
from lts_bench.report.figure_tables import FIGURE_TABLES
from lts_bench.report.leaderboard import make_board
from lts_bench.results.schema import Row
from lts_bench.results.store import Stored, read_store, write_grid, write_row
from lts_bench.specs.failure import InputError


def test_what_was_written_is_what_is_checked(tmp_path: Path) -> None:
    board = make_board(grid(), make_rows({"a": 1.0, "b": 0.5}))
    write_board(board, tmp_path)
    figures = {f"{name}.svg" for name in ("anytime_evaluations", "anytime_seconds", "profiles", "scatter", "targets")}
    assert {path.name for path in (tmp_path / "mini").iterdir()} == {
        *board_texts(board), *figures, "scatter.png", "tasks.svg"
    }  # fmt: skip
    assert differences(board, tmp_path) == []


@pytest.mark.parametrize("rows", [[], make_rows({"a": 1.0})[:-1]])
def test_a_board_on_which_nobody_is_scored_has_tables_of_heads_alone(rows: list[Row]) -> None:
    texts = board_texts(make_board(grid(), rows))
    assert {name: texts[name].count(b"\n") for name in FIGURE_TABLES} == dict.fromkeys(FIGURE_TABLES, 1)


def test_plots_are_not_compared_but_every_table_is(tmp_path: Path) -> None:
    board = make_board(grid(), make_rows({"a": 1.0}))
    write_board(board, tmp_path)
    (tmp_path / "mini" / "scatter.png").write_bytes(b"")
    assert differences(board, tmp_path) == []
    table = tmp_path / "mini" / "leaderboard.csv"
    table.write_text(table.read_text().replace("1.000000", "1.000001"))
    (tmp_path / "mini" / "tasks.csv").unlink()
    changed, missing = differences(board, tmp_path)
    assert changed == f"{table}:2: differs from what the results give"
    assert missing == f"{tmp_path}/mini/tasks.csv: is missing"


def test_a_line_less_is_told_where(tmp_path: Path) -> None:
    board = make_board(grid(), make_rows({"a": 1.0}))
    write_board(board, tmp_path)
    table = tmp_path / "mini" / "leaderboard.csv"
    table.write_text(table.read_text() + "more\n")
    assert differences(board, tmp_path) == [f"{table}:3: differs from what the results give"]


def test_a_board_per_suite_that_has_rows(tmp_path: Path) -> None:
    rows = make_rows({"a": 1.0})
    for row in rows:
        write_row(tmp_path, row)
    write_grid(tmp_path, grid())
    assert boards(read_store([tmp_path])) == [make_board(grid(), rows)]
    assert boards(read_store([tmp_path]), names=["mini"]) == [make_board(grid(), rows)]
    other = msgspec.structs.replace(grid(), name="other")
    write_grid(tmp_path / "other", other)
    assert [board.grid.name for board in boards(read_store([tmp_path]))] == ["mini", "other"]
    assert boards(read_store([tmp_path]), names=["other"]) == [make_board(other, rows)]
    with pytest.raises(InputError, match=r"suite: no results of it; did you mean 'mini'\?"):
        boards(read_store([tmp_path]), names=["minni"])


def test_no_results_are_an_error() -> None:
    with pytest.raises(InputError, match="no results"):
        boards(Stored({}, {}, ()))
