from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lts_bench.cli import app, main

BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,230,1317,API log
47,GPT-4,9000,30,9030,API log
85,GPT-4,12,0,12,API log
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(BURSTGPT)
    return path


def document(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["trace", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_trace_is_described(file: Path) -> None:
    found = document(file)
    assert found["requests"] == 3
    assert found["requests_per_s"] == 3 / 42
    assert found["skipped"] == {"zero_output": 1}


def test_options_select_and_scale(file: Path) -> None:
    assert document(file, "--window", "1:", "--rate-scale", 2)["requests_per_s"] == 2
    assert document(file, "--model", "ChatGPT")["prompt_tokens"]["max"] == 472
    assert document(file, "--context", 8192)["skipped"] == {"zero_output": 1, "over_long": 1}
    assert document(file, "--time-unit", "ms")["duration_s"] == 0.042


def test_what_was_read_is_written(file: Path, tmp_path: Path) -> None:
    written = tmp_path / "written.csv"
    found = document(file, "--out", written, "--rate-scale", 4)
    assert written.read_text() == "arrival_s,prompt_tokens,output_tokens\n0.0,472,18\n10.0,1087,230\n10.5,9000,30\n"
    assert document(written) == found | {"skipped": {}}


def test_bad_rows_are_an_error_or_counted(file: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(BURSTGPT + "90,GPT-4,x,1,,API log\n")
    assert document(file, "--skip-bad-rows")["skipped"]["bad_row"] == 1
    monkeypatch.setattr("sys.argv", ["lts-bench", "trace", str(file)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "line 6, Request tokens: must be a whole number" in capsys.readouterr().err


def test_people_get_a_table(file: Path) -> None:
    result = CliRunner().invoke(app, ["trace", str(file)])
    assert result.exit_code == 0
    assert "prompt_tokens.mean" in result.stdout
