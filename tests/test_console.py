from __future__ import annotations

import json
from typing import Any

import pytest
from made_rows import grid, make_row, make_rows

from lts_bench.console import (
    failed_rows,
    print_boards,
    print_check,
    print_evaluation,
    print_fields,
    print_json,
    print_rows,
    progress_bar,
)
from lts_bench.report.leaderboard import make_board
from lts_bench.results.schema import Status
from lts_bench.specs.failure import InputError

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


EVALUATION: dict[str, Any] = {
    "feasible": True,
    "goodput_per_npu": 1234.5678,
    "memory_bytes": {"weights": 17_641_766_912, "limit": 8e10},
    "violation": {"memory": 0.0},
    "violations": [],
    "warnings": [],
    "strategy": {
        "pp": 2, "tp": 8, "sharding": {"dense.ffn.up": ["R", "N"], "dense.stream": ["R", "R"], "embed": ["R", "M"]},
    },
    "operators": [
        {"layer": "dense", "count": 10, "operator": "dense.ffn.up", "prefill_us": 1500.0, "decode_us": 12.5},
        {"layer": "head", "count": 1, "operator": "head", "prefill_us": 0.0, "decode_us": 75.0},
    ],
}  # fmt: skip


def evaluation_lines(capsys: Capture, **changes: Any) -> list[str]:
    print_evaluation(EVALUATION | changes)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_an_evaluation_shows_units_the_strategy_in_short_and_a_line_an_operator(capsys: Capture) -> None:
    assert evaluation_lines(capsys) == [
        "feasible yes",
        "goodput_per_npu 1,235 tokens/s",
        "memory_bytes.weights 17.64 GB",
        "memory_bytes.limit 80 GB",
        "violation.memory 0 %",
        "strategy pp=2 tp=8",
        "sharding.dense ffn.up=N stream=R",
        "sharding embed=M",
        "",
        "operators of one layer; times count: prefill 15 ms, decode 0.2 ms",
        "layer count operator prefill_us decode_us",
        "dense 10 dense.ffn.up 1,500.0 12.5",
        "head 1 head 0.0 75.0",
    ]


def test_intervals_are_a_table_of_their_own(capsys: Capture) -> None:
    interval = {"median": 900.0, "p5": 850.0, "p95": 1000.0}
    spread = {"draws": 64, "feasible_share": 0.953125, "goodput_per_npu": interval, "ttft_ms": dict.fromkeys(interval)}
    lines = evaluation_lines(capsys, uncertainty=spread)
    start = lines.index("over 64 draws of the constants within their errors, feasible in 95 %")
    assert lines[start - 1 : start + 5] == [
        "",
        "over 64 draws of the constants within their errors, feasible in 95 %",
        "median 5 % 95 %",
        "goodput_per_npu 900 tokens/s 850 tokens/s 1,000 tokens/s",
        "ttft_ms – – –",
        "",
    ]


def test_two_axes_have_two_letters(capsys: Capture) -> None:
    strategy = {"tp": [2, 4], "sharding": {"moe.experts.up": ["N"], "moe.stream": ["R", "M"]}}
    lines = evaluation_lines(capsys, strategy=strategy)
    assert {"strategy tp=2x4", "sharding.moe experts.up=N stream=R,M"} <= set(lines)


def test_what_is_wrong_with_an_evaluation_is_told_in_lines(capsys: Capture) -> None:
    broken = [{"class": "SLO", "rule": "tpot_ms <= 5", "message": "TPOT 9 ms exceeds the limit of 5 ms"}]
    lines = evaluation_lines(capsys, violations=broken, warnings=["6 of 8 devices are used"], tpot_ms=None)
    expected = ("SLO: TPOT 9 ms exceeds the limit of 5 ms", "warning: 6 of 8 devices are used", "tpot_ms –")
    assert set(expected) <= set(lines)


def test_legal_is_not_yet_feasible(capsys: Capture) -> None:
    violation = {"class": "MEMORY", "message": "too large"}
    for legal, violations, told in (
        (True, [], "legal\n"),
        (True, [violation], "legal, but not feasible\nMEMORY: too large\n"),
        (False, [violation], "not legal\nMEMORY: too large\n"),
    ):
        print_check({"legal": legal, "violations": violations, "warnings": []})
        assert capsys.readouterr().out == told


def test_rows_lose_hidden_and_empty_columns(capsys: Capture) -> None:
    print_rows(
        [{"name": "a", "path": "p", "broken": None}, {"name": "b", "path": "q", "broken": None}], hidden=("path",)
    )
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["name", "a", "b"]


def test_tables_of_a_board_are_apart(capsys: Capture) -> None:
    rows = make_rows({"a": 1.0}) + make_rows({"h": 1.5}, track="heuristic")
    print_boards([make_board(grid(), rows)])
    assert [not line.strip() for line in capsys.readouterr().out.splitlines()] == [False] * 3 + [True] + [False] * 3


def test_a_refused_run_leaves_no_progress_bar(capsys: Capture) -> None:
    with pytest.raises(InputError), progress_bar():
        raise InputError("no")
    assert capsys.readouterr().err == ""
    with progress_bar() as show:
        show(4, 4, "last")
    assert "4/4" in capsys.readouterr().err


def test_a_model_is_shown_flat_and_its_warnings_in_lines(capsys: Capture) -> None:
    print_fields({"parameters": {"total": 8030261248}, "legal": {"tp": [1, 2, 4]}, "warnings": ["odd"]})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["parameters.total", "8,030,261,248"],
        ["legal.tp", "1,", "2,", "4"],
        ["warning:", "odd"],
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
