"""Tasks drawn until they can be solved, and the commands about suites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lts_bench import generate
from lts_bench.cli import app
from lts_bench.report import cards_page
from lts_bench.specs.failure import InputError
from lts_bench.specs.generated import proposal
from lts_bench.specs.suite import load_suite
from lts_bench.specs.taskspec import TaskSpec


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(result.exception, InputError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def test_limits_that_nothing_meets_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TaskSpec] = []

    def third_time_lucky(spec: TaskSpec) -> bool:
        asked.append(spec)
        return len(asked) == 3

    monkeypatch.setattr(generate, "solvable", third_time_lucky)
    assert generate.redraws_of("train", 5) == 2
    assert asked == [proposal("train", 5, attempt) for attempt in range(3)]


def test_a_task_that_cannot_be_solved_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "solvable", lambda spec: False)
    with pytest.raises(InputError, match="none of 100 draws"):
        generate.redraws_of("train", 5)


def test_a_suite_is_written_and_read_back(tmp_path: Path) -> None:
    generate.write_suite(tmp_path / "mine.yaml", "heldout", [0, 2], "salt")
    suite = load_suite(tmp_path / "mine.yaml")
    assert suite.name == "heldout"
    assert suite.tasks == (proposal("heldout", 0, 0, "salt"), proposal("heldout", 1, 2, "salt"))


def test_the_command_draws_a_suite(tmp_path: Path) -> None:
    file = tmp_path / "heldout.yaml"
    code, printed = run("generate", "heldout", "--salt", "a", "--tasks", 2, "--workers", 1, "--out", file, "--json")
    assert code == 0
    assert json.loads(printed[printed.index("{") :])["tasks"] == 2
    assert len(load_suite(file).tasks) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("generate", "validation"), "split: no such split"),
        (("generate", "heldout", "--tasks", 1), "--out: must be given"),
        (("generate", "heldout", "--tasks", 1, "--out", "x.yaml"), "--salt: needs a salt"),
        (("generate", "train", "--tasks", 1), "--out: must be given"),
        (("cards", "train"), "suite: has no cards"),
        (("cards", "smoke", "--all"), "suite: name suites, or --all"),
    ],
)
def test_bad_input_is_told(arguments: tuple[object, ...], told: str) -> None:
    code, printed = run(*arguments)
    assert code == 2
    assert told in printed


def test_check_tells_what_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards_page, "deck_file", lambda name: tmp_path / f"{name}.json")
    page = tmp_path / "suites.md"
    code, printed = run("cards", "smoke", "--check", "--out", page)
    assert code == 1
    assert "smoke.json: is missing" in printed
    assert "suites.md: differs from what the cards give" in printed


def test_the_stored_cards_of_smoke_are_up_to_date() -> None:
    suite = load_suite("smoke")
    assert [line for line in cards_page.problems([suite], Path("docs/suites.md")) if "suites.md" not in line] == []
