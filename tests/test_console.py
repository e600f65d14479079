from __future__ import annotations

import json

import pytest
from made_rows import grid, make_row, make_rows

from lts_bench.console import (
    failed_rows,
    print_boards,
    print_check,
    print_evaluation,
    print_json,
    print_model,
    print_rows,
)
from lts_bench.report.leaderboard import make_board
from lts_bench.results.schema import Status

Capture = pytest.CaptureFixture[str]


def test_names_of_strangers_are_no_markup(capsys: Capture) -> None:
    print_rows([{"name": "[red]x[/red]", "note": "[/]"}])
    print_boards([make_board(grid(), make_rows({"[bold]y": 1.0}))])
    print_check({"legal": False, "violations": [{"class": "MEMORY", "message": "[/]no"}], "warnings": ["[b]w"]})
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("[red]x[/red]", "[/]", "[bold]y@1", "MEMORY: [/]no", "warning: [b]w"))


def test_a_board_shows_a_table_a_track(capsys: Capture) -> None:
    rows = make_rows({"a": 1.0, "b": 2.0}) + make_rows({"h": 1.5}, track="heuristic")
    print_boards([make_board(grid(), rows)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if "@1" in line] == ["b@1", "a@1", "h@1"]
    assert [line.strip() for line in lines if "track" in line] == [
        "mini, budget e50, track search",
        "mini, budget e50, track heuristic",
    ]


def test_an_evaluation_shows_the_headline_and_a_line_an_operator(capsys: Capture) -> None:
    document = {
        "feasible": True,
        "goodput_per_npu": 1234.5678,
        "memory_bytes": {"weights": 10**10, "limit": 8e10},
        "violation": {"memory": 0.0},
        "operators": [{"operator": "dense.ffn.up", "decode_us": 12.5}, {"operator": "head", "decode_us": None}],
        "warnings": [],
    }
    print_evaluation(document)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    expected = ("feasible yes", "goodput_per_npu 1,234.57", "memory_bytes.weights 10,000,000,000", "dense.ffn.up 12.5")
    assert set(expected) <= set(lines)


def test_a_model_is_shown_flat(capsys: Capture) -> None:
    print_model({"parameters": {"total": 8030261248}, "legal": {"tp": [1, 2, 4]}})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["parameters.total", "8,030,261,248"],
        ["legal.tp", "1,", "2,", "4"],
    ]


def test_json_is_finite_and_keeps_its_letters(capsys: Capture) -> None:
    print_json({"a": "÷"})
    assert "÷" in (shown := capsys.readouterr().out)
    assert json.loads(shown) == {"a": "÷"}
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"a": float("nan")})


def test_what_is_not_ok_is_told_in_a_line() -> None:
    rows = [make_row(), make_row(seed=2, status=Status.CRASH, error="KeyError: 3")]
    assert failed_rows(rows) == ["m/c/0: mine@1 seed 2: crash: KeyError: 3"]
