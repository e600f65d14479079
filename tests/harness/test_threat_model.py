"""Plays an attacker at every level of isolation and finds what the page says, no more and no less."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacker import attack
from sandboxes import needs_bubblewrap

import lts_bench
from lts_bench.harness.execute import finished, worker_pool

PAGE = Path(__file__).parents[2] / "docs" / "threat-model.md"
LEVELS = ("in_process", "child", "sealed")
ROW = re.compile(r"^\| (?P<attack>[a-z ',]+) \| (?P<levels>[^|]*\|[^|]*\|[^|]*) \|$", re.MULTILINE)


def stated(level: str) -> dict[str, str]:
    """What the page's table says of each attack at a level: open, stopped, or that it depends."""
    rows = {found["attack"]: found["levels"].split("|") for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    return {name: columns[LEVELS.index(level)].strip() for name, columns in rows.items() if name != "an agent can"}


@pytest.fixture
def port() -> Iterator[int]:
    """A port that somebody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def running(command: str) -> bool:
    return command in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("level", ["in_process", "child", pytest.param("sealed", marks=needs_bubblewrap)])
def test_an_attacker_gets_as_far_as_the_page_says(level: str, tmp_path: Path, port: int) -> None:
    nap = f"600{LEVELS.index(level)}.25"
    root = str(Path(lts_bench.__file__).parents[1])
    with worker_pool(1) as pool:
        ((succeeded, row),) = finished(pool, attack, [(tmp_path, level, port, nap, root)])
        # It was there while the agent ran.
        assert succeeded["leave a process behind"]
        succeeded["leave a process behind"] = running(nap)
    assert row["status"] == "ok", row
    succeeded["forge the ledger"] = row["goodput"] > 465.0
    found = {name: "open" if success else "stopped" for name, success in succeeded.items()}
    page = stated(level)
    assert {name: verdict for name, verdict in found.items() if page.get(name) != "depends"} == {
        name: verdict for name, verdict in page.items() if verdict != "depends"
    }
