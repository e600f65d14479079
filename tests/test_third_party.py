"""An agent of a third party goes all the way: installed, found, checked, run, submitted, verified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxes import needs_bubblewrap

PACKAGE = Path(__file__).parent / "third_party"
COMMAND = [sys.executable, "-c", "from lts_bench.cli import main; main()"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the package is installed, in ``site``."""
    folder = tmp_path_factory.mktemp("third-party")
    # Building writes beside the sources.
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    install = [sys.executable, "-m", "pip", "install", *options, "--target", "site", "./source"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def lts_bench(home: Path, *arguments: str, code: int = 0) -> str:
    path = os.pathsep.join([str(home / "site"), *filter(None, sys.path)])
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=home, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout if code != 2 else done.stderr


def test_from_installation_to_verification(home: Path) -> None:
    listed = {agent["name"]: agent for agent in json.loads(lts_bench(home, "list", "agents", "--json"))["agents"]}
    assert (listed["coordinate"]["track"], listed["coordinate"]["broken"]) == ("search", None)
    checks = json.loads(lts_bench(home, "check-agent", "coordinate", "--json"))["checks"]
    assert {check["passed"] for check in checks} == {True}
    lts_bench(home, "run", "--suite", "smoke", "--agent", "coordinate")

    folder = home / "results" / "coordinate@1"
    told = lts_bench(home, "submit", "runs", code=2)
    assert told == "error: results/coordinate@1/card.yaml: a draft of the card: complete it, then submit again\n"
    card = folder / "card.yaml"
    draft = card.read_text()
    assert "value: 40" in draft
    card.write_text(
        draft.replace("authors: []", "authors: [Ada]").replace("licence: null", "licence: MIT")
        .replace("evaluations: null", "evaluations: 3000")
    )  # fmt: skip
    assert lts_bench(home, "submit", "runs") == "results/coordinate@1\n"
    assert {path.name for path in folder.iterdir()} == {
        "MANIFEST.sha256", "card.yaml", "environment.yaml", "runs.jsonl", "search.py"
    }  # fmt: skip
    assert lts_bench(home, "submit", "--check", str(folder)) == "8 checks, 0 failed\n"
    assert json.loads(lts_bench(home, "verify", "results", "--json"))["failed"] == 0
    # The rows that were run and the submitted ones are the same.
    assert json.loads(lts_bench(home, "report", "runs", "results", "--json"))["boards"][0]["missing"] == 0
    if not needs_bubblewrap.args[0]:
        where = ("--seeds", "1", "--isolation", "sealed", "--out", "sealed")
        lts_bench(home, "run", "--suite", "smoke", "--agent", "coordinate", *where)
    subprocess.run(["sha256sum", "--check", "--strict", "MANIFEST.sha256"], cwd=folder, check=True, capture_output=True)
