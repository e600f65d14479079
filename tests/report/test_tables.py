from __future__ import annotations

import csv
import io
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import OPTIMUM, grid, make_rows

from lts_bench.report.figure_tables import FIGURE_TABLES, scatter_csv
from lts_bench.report.leaderboard import make_board
from lts_bench.report.tables import (
    FORMULA_STARTS,
    csv_text,
    leaderboard_csv,
    leaderboard_markdown,
    markdown_table,
    markdown_text,
    summary_markdown,
    tasks_csv,
)
from lts_bench.results.schema import Replay

NASTY = "=1+1|<img src=x onerror=alert(1)>"


@given(st.text())
def test_no_text_starts_a_formula_and_none_is_lost(text: str) -> None:
    (cell,) = list(csv.reader(io.StringIO(csv_text(("a",), [[text + "."]]), newline="")))[1]
    assert not cell.startswith(FORMULA_STARTS)
    assert cell.removeprefix("'") == " ".join((text + ".").split()).removeprefix("'")


def test_negative_numbers_stay_numbers() -> None:
    assert csv_text(("a",), [[-1.5]]) == "a\n-1.5\n"


@given(st.text(), st.text())
def test_text_breaks_no_table(left: str, right: str) -> None:
    table = markdown_table(("a", "b"), [[markdown_text(left), markdown_text(right)]])
    rows = table.splitlines()
    assert len(rows) == 3
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", rows[2])) == 3
    assert "<" not in table


def test_the_leaderboard_escapes_names() -> None:
    board = make_board(grid(), make_rows({NASTY: 1.0}))
    markdown, table = leaderboard_markdown(board), leaderboard_csv(board)
    assert "=1+1\\|&lt;img src=x onerror=alert(1)&gt;@1" in markdown
    assert next(csv.DictReader(io.StringIO(table)))["agent"] == f"'{NASTY}@1"


def test_zero_is_shown_as_zero_and_nothing_as_a_dash() -> None:
    board = make_board(grid(), make_rows({"zero": None}) + make_rows({"part": 1.0})[:-1])
    lines = [line.split(" | ") for line in leaderboard_markdown(board).splitlines() if "@1" in line]
    assert lines[0][:3] == ["| 1", "zero@1", "0.0000"]
    assert lines[1][:3] == ["| –", "part@1", "–"]
    assert "**1 cells are missing.**" in leaderboard_markdown(board)


def test_csv_has_a_line_an_agent() -> None:
    board = make_board(grid(), make_rows({"a": 1.0, "b": 2.0}))
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(board))))
    assert [(row["rank"], row["agent"], row["score"]) for row in rows] == [
        ("1", "b@1", "2.000000"),
        ("2", "a@1", "1.000000"),
    ]
    assert [row["agent"] for row in csv.DictReader(io.StringIO(scatter_csv(board)))] == ["b@1", "a@1"]
    assert len(list(csv.DictReader(io.StringIO(tasks_csv(board))))) == 4


def test_replays_stand_beside_the_scores_and_a_dash_where_there_is_none() -> None:
    replay = Replay(offered_requests_per_s=9.0, attainment=0.5, goodput_per_npu=50.0)
    board = make_board(grid(), make_rows({"a": 1.0}, replay=replay) + make_rows({"b": 0.5}))
    first, second = [line for line in leaderboard_markdown(board).splitlines() if "@1 | " in line][:2]
    assert first.endswith(" | 0.5000 | 0.2500 |")
    assert second.endswith(" | – | – |")
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(board))))
    assert [(line["attainment"], line["replayed_goodput"]) for line in lines] == [("0.500000", "0.250000"), ("", "")]


def test_a_board_says_what_scores_are_and_where_an_optimum_is_not_certified() -> None:
    rows = make_rows({"a": 1.0})
    certified = leaderboard_markdown(make_board(grid(), rows))
    bound = msgspec.structs.replace(OPTIMUM, certified=False)
    bounded = leaderboard_markdown(make_board(grid(), make_rows({"a": 1.0}, optimum=bound)))
    note = "6 cells are measured against a bound: their optimum is not certified."
    assert "÷ the certified optimum" in certified
    assert (note in certified, note in bounded) == (False, True)
    assert bounded.index(note) > bounded.index("| 1 | a@1 |")


@pytest.mark.parametrize(
    "render", [leaderboard_csv, leaderboard_markdown, summary_markdown, tasks_csv, *FIGURE_TABLES.values()]
)
def test_the_order_of_rows_does_not_matter(render) -> None:  # type: ignore[no-untyped-def]
    rows = make_rows({"a": 1.0, "b": 2.0, "c": None})
    assert render(make_board(grid(), rows)) == render(make_board(grid(), rows[::-1]))
