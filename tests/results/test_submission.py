from __future__ import annotations

import hashlib
import json
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from made_rows import PROVENANCE, make_row

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.registry import agent_digest
from lts_bench.results import submission
from lts_bench.results.grids import Grid
from lts_bench.results.schema import Row, decode_row, encode_row
from lts_bench.results.store import read_store, write_grid, write_row
from lts_bench.results.submission import Request, submit
from lts_bench.results.submission_checks import LARGEST_SUITE_BYTES, submission_document
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import load_suite

SMOKE = Grid.of(load_suite("smoke"))
AGENT = """
    from lts_bench.agent import Agent

    raise RuntimeError("executed")

    class Mine(Agent):
        name, version, track = "mine", "1", "search"
"""
CARD = {
    "agent": "mine", "version": "1", "track": "search", "authors": ["Ada"], "licence": "MIT", "source": "x",
    "suites": [], "tuning": {"evaluations": 0},
}  # fmt: skip


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """An agent's file that must never be run."""
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(AGENT))
    return f"{path}:Mine"


def cells(ref: str, grid: Grid = SMOKE, **changes: Any) -> list[Row]:
    """Return the made-up rows of an agent for a whole suite."""
    provenance = msgspec.structs.replace(PROVENANCE, cost_model=COST_MODEL_VERSION, agent_digest=agent_digest(ref))
    made = [
        make_row(task=task, seed=seed, budget=grid.budget, provenance=provenance, **changes)
        for task in grid.tasks
        for seed in grid.seeds
    ]
    return [msgspec.structs.replace(row, run_id=row.expected_run_id) for row in made]


def store(directory: Path, rows: list[Row], grid: Grid = SMOKE) -> Path:
    for row in rows:
        write_row(directory, row)
    write_grid(directory, grid)
    return directory


def submitted(tmp_path: Path, ref: str, rows: list[Row] | None = None, **card: Any) -> Path:
    """Submit rows, by default of smoke, and return the folder."""
    runs = store(tmp_path / "runs", cells(ref) if rows is None else rows)
    path = tmp_path / "card.yaml"
    path.write_text(yaml.safe_dump(CARD | card))
    (folder,) = submit(Request(runs, tmp_path / "results", (ref,), path))["submissions"]
    return Path(folder)


def told(folder: Path) -> set[tuple[str, str]]:
    return {(check["name"], check["field"]) for check in submission_document(folder)["checks"] if not check["ok"]}


def test_a_submission_is_right_and_reads_back(tmp_path: Path, agent: str) -> None:
    folder = submitted(tmp_path, agent)
    assert told(folder) == set()
    stored = read_store([folder])
    assert list(stored.rows.values()) == sorted(cells(agent), key=lambda row: row.run_id)
    assert stored.grids == {"smoke": SMOKE}
    assert read_store([tmp_path]).rows == stored.rows


def test_the_same_rows_give_the_same_bytes(tmp_path: Path, agent: str) -> None:
    folder = submitted(tmp_path, agent)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in submitted(tmp_path, agent).iterdir()} == before


def test_suites_add_up(tmp_path: Path, agent: str) -> None:
    folder = submitted(tmp_path, agent)
    claims = Grid.of(load_suite("claims"))
    store(tmp_path / "more", cells(agent, claims), claims)
    submit(Request(tmp_path / "more", tmp_path / "results", (agent,)))
    assert told(folder) == set()
    # A task of claims is one of moe too, which is not submitted.
    assert read_store([folder]).grids.keys() == {"claims", "smoke"}
    assert len(read_store([folder]).rows) == 9 + 48


def test_only_whole_suites_are_submitted(tmp_path: Path, agent: str) -> None:
    with pytest.raises(InputError, match="smoke: mine@1 has 8 of 9 cells"):
        submitted(tmp_path, agent, cells(agent)[1:])


def test_a_suite_with_other_seeds_is_not_the_built_in_one(tmp_path: Path, agent: str) -> None:
    runs = store(tmp_path / "one", cells(agent), msgspec.structs.replace(SMOKE, seeds=(1,)))
    with pytest.raises(InputError, match="smoke: not the tasks, seeds and budget of a built-in suite"):
        submit(Request(runs, tmp_path / "results", (agent,)))


def test_without_a_card_a_draft_is_left(tmp_path: Path, agent: str) -> None:
    runs = store(tmp_path / "runs", cells(agent, parameters={"rate": 0.5}))
    request = Request(runs, tmp_path / "results", (agent,))
    with pytest.raises(InputError, match="draft"):
        submit(request)
    with pytest.raises(InputError, match=r"card\.yaml: licence: required key is missing"):
        submit(request)
    card = tmp_path / "results" / "mine@1" / "card.yaml"
    document = yaml.safe_load(card.read_text())
    assert document["hyperparameters"] == {"rate": {"value": 0.5, "tried": []}}
    card.write_text(yaml.safe_dump(document | {"licence": "MIT", "authors": ["Ada"], "tuning": {"evaluations": 5}}))
    assert submit(request)["submissions"] == [str(card.parent)]
    assert told(card.parent) == set()


def test_rows_of_another_cost_model_stay_behind(tmp_path: Path, agent: str) -> None:
    old = [
        msgspec.structs.replace(row, provenance=msgspec.structs.replace(row.provenance, cost_model="0"))
        for row in cells(agent)
    ]
    with pytest.raises(InputError, match="no whole suite"):
        submitted(tmp_path, agent, [msgspec.structs.replace(row, run_id=row.expected_run_id) for row in old])


def test_a_changed_source_needs_three_cells_again(tmp_path: Path, agent: str) -> None:
    folder = submitted(tmp_path, agent)
    path = Path(agent.partition(":")[0])
    path.write_text(path.read_text() + "\n# faster\n")
    request = Request(tmp_path / "runs", tmp_path / "results", (agent,))
    again = cells(agent)
    for count in (0, 2):
        store(request.rows, again[:count])
        with pytest.raises(InputError, match="its source has changed"):
            submit(request)
    store(request.rows, again[:3])
    submit(request)
    assert told(folder) == set()


def test_another_outcome_of_a_submitted_cell_is_refused(tmp_path: Path, agent: str) -> None:
    submitted(tmp_path, agent)
    store(tmp_path / "again", cells(agent, score=0.7))
    with pytest.raises(InputError, match="differs from"):
        submit(Request(tmp_path / "again", tmp_path / "results", (agent,)))


def lines(folder: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    path = folder / "runs.jsonl"
    rows = [decode_row(line, "x") for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(map(encode_row, change(rows))))


def refreshed(folder: Path) -> None:
    """Write the manifest anew, as a forger would."""
    files = [path for path in folder.iterdir() if path.name != "MANIFEST.sha256"]
    text = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / "MANIFEST.sha256").write_text(text)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("runs.jsonl", lambda text: text + "{", {("readable", ""), ("files", "runs.jsonl")}),
        ("card.yaml", lambda text: text.replace("MIT", ""), {("readable", "licence")}),
        ("card.yaml", lambda text: text.replace("MIT", "BSD"), {("files", "card.yaml")}),
        ("mine.py", lambda text: text + "#", {("files", "mine.py"), ("source", "source")}),
        ("environment.yaml", lambda text: text.replace("numpy==", "numpy==9"), {("environment", "lock_digest")}),
    ],
)
def test_a_changed_file_is_told(
    tmp_path: Path, agent: str, name: str, change: Callable[[str], str], expected: set[tuple[str, str]]
) -> None:
    path = submitted(tmp_path, agent) / name
    path.write_text(change(path.read_text()))
    assert expected <= told(path.parent)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[1:], ("complete", "smoke")),
        (lambda rows: [*rows, rows[0]], ("complete", "smoke")),
        (lambda rows: [msgspec.structs.replace(rows[0], seed=7), *rows[1:]], ("complete", "smoke")),
        (lambda rows: [msgspec.structs.replace(rows[0], track="oracle"), *rows[1:]], ("identity", "TASK seed 1")),
        (lambda rows: [msgspec.structs.replace(rows[0], version="2"), *rows[1:]], ("identity", "TASK seed 1")),
        (lambda rows: [msgspec.structs.replace(rows[0], parameters={"a": 1}), *rows[1:]], ("identity", "TASK seed 1")),
        (lambda rows: [msgspec.structs.replace(rows[0], instance=9), *rows[1:]], ("rows", "TASK seed 1: instance")),
        (lambda rows: [msgspec.structs.replace(rows[0], run_id="0" * 64), *rows[1:]], ("rows", "TASK seed 1: run_id")),
        (
            lambda rows: [msgspec.structs.replace(row, error="x" * LARGEST_SUITE_BYTES) for row in rows],
            ("size", "smoke"),
        ),
    ],
)
def test_forged_rows_are_told_though_the_manifest_fits(
    tmp_path: Path, agent: str, change: Callable[[list[Row]], list[Row]], expected: tuple[str, str]
) -> None:
    folder = submitted(tmp_path, agent)
    first = decode_row((folder / "runs.jsonl").read_bytes().splitlines()[0], "x").task
    lines(folder, change)
    refreshed(folder)
    name, field = expected
    assert (name, field.replace("TASK", first)) in told(folder)


def test_nothing_beside_what_belongs_there(tmp_path: Path, agent: str) -> None:
    folder = submitted(tmp_path, agent)
    (folder / "weights.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (folder / "more.jsonl").symlink_to("runs.jsonl")
    refreshed(folder)
    assert told(folder) == {("files", "weights.pkl"), ("files", "more.jsonl")}


def test_the_folder_is_called_as_the_agent(tmp_path: Path, agent: str) -> None:
    folder = submitted(tmp_path, agent)
    assert told(folder.rename(folder.parent / "best@1")) == {("identity", "folder")}


@pytest.mark.parametrize(
    "source", ["../../../mine.py:Mine", "lts_bench.agents.ppo:PPOAgent", "os.path:join", "mine.py"]
)
def test_the_source_lies_beside_the_card(tmp_path: Path, agent: str, source: str) -> None:
    path = submitted(tmp_path, agent) / "card.yaml"
    path.write_text(path.read_text().replace("mine.py:Mine", source))
    refreshed(path.parent)
    assert "readable" in {name for name, _ in told(path.parent)}


@pytest.mark.parametrize(
    ("card", "field"),
    [
        ({"authors": []}, "authors"),
        ({"track": "pretrained"}, "training"),
        ({"training": {"tasks": ["train"], "evaluations": 5}}, "training"),
        ({"version": "2"}, "version"),
        ({"licence": ""}, "licence"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_card_is_refused(tmp_path: Path, agent: str, card: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        submitted(tmp_path, agent, **card)
    assert caught.value.field == field


def test_a_card_is_of_one_agent(tmp_path: Path, agent: str) -> None:
    runs = store(tmp_path / "runs", cells(agent))
    with pytest.raises(InputError, match="--agent"):
        submit(Request(runs, tmp_path / "results", (agent, "random"), tmp_path / "card.yaml"))


def test_a_built_in_agent_has_no_file_and_a_known_licence(tmp_path: Path) -> None:
    rows = cells("random", agent="random")
    request = Request(store(tmp_path / "runs", rows), tmp_path / "results")
    with pytest.raises(InputError, match="draft"):
        submit(request)
    card = tmp_path / "results" / "random@1" / "card.yaml"
    card.write_text(card.read_text().replace("evaluations: null", "evaluations: 0"))
    assert submit(request)["submissions"] == [str(card.parent)]
    assert {path.name for path in card.parent.iterdir()} == {
        submission.CARD_FILE, submission.ROWS_FILE, submission.ENVIRONMENT_FILE, submission.MANIFEST_FILE,
    }  # fmt: skip
    assert told(card.parent) == set()


def test_what_is_told_is_json(tmp_path: Path, agent: str) -> None:
    document = submission_document(submitted(tmp_path, agent))
    assert json.loads(json.dumps(document, allow_nan=False))["failed"] == 0
    assert os.sep in document["checks"][0]["file"]
