"""The committed results: whole, unchanged since they were verified, and what boards and pages are made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lts_bench.registry import list_agents
from lts_bench.results.grids import Grid
from lts_bench.results.levels import labelled, read_levels, rows_digest
from lts_bench.results.store import Stored, read_store, write_row
from lts_bench.results.submission_checks import submission_document
from lts_bench.results.verification import verify
from lts_bench.specs.suite import load_suite

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
# In the tree itself, which must not hide the installed package.
COMMAND = [sys.executable, "-P", "-c", "from lts_bench.cli import main; main()"]
SUITES = ("claims", "core", "hard", "large-npu", "smoke")


@pytest.fixture(scope="module")
def stored() -> Stored:
    return read_store([RESULTS])


def lts_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([*COMMAND, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_each_suite_has_all_its_agents(stored: Stored) -> None:
    versions = {info.name: f"{info.name}@{info.version}" for info in list_agents()}
    for name in SUITES:
        suite = load_suite(name)
        rows = Grid.of(suite).own_rows(stored.rows.values())
        cells = len(suite.tasks) * suite.seeds
        assert {versions[agent]: cells for agent in suite.agents} == {
            label: len(labelled(rows, label)) for label in sorted({row.label for row in rows})
        }


def test_rows_are_those_that_were_verified(stored: Stored) -> None:
    levels = read_levels([RESULTS])
    recorded = {(level.suite, level.agent): level for level in levels}
    for name in SUITES:
        rows = Grid.of(load_suite(name)).own_rows(stored.rows.values())
        for label in {row.label for row in rows}:
            level = recorded.pop((name, label))
            assert level.level >= "L1" and level.rows == rows_digest(labelled(rows, label))
    assert not recorded


@pytest.mark.parametrize("folder", sorted(RESULTS.glob("*@*")), ids=lambda folder: folder.name)
def test_folders_are_submissions(folder: Path) -> None:
    document = submission_document(folder)
    assert document["failed"] == 0, [check for check in document["checks"] if not check["ok"]]


def test_smoke_is_verified_again(stored: Stored, tmp_path: Path) -> None:
    for row in Grid.of(load_suite("smoke")).own_rows(stored.rows.values()):
        write_row(tmp_path, row)
    assert [record for record in verify([tmp_path]) if not record.ok] == []


def test_boards_readme_and_claims_are_what_the_results_give() -> None:
    boards = lts_bench("report", "results", "--page", "README.md", "--check", "--json")
    assert boards.returncode == 0, boards.stderr
    claims = lts_bench("claims", "results", "--check")
    assert claims.returncode == 0, claims.stderr
