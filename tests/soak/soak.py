"""Kills drivers, workers and agents at random moments, and finds that nothing is lost, run twice or changed.

``python tests/soak/soak.py [KILLS] [SEED]``; takes some seconds a kill, so it is no part of the tests.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lts_bench.harness.lifeline import family

COMMAND = [sys.executable, "-c", "from lts_bench.cli import main; main()"]
KILLS_A_RUN = 10
TABLES = ("leaderboard.md", "leaderboard.csv", "tasks.csv", "scatter.csv")
TASK = """
  - name: llama-3.1-8b/h100x4/{name}
    model: llama-3.1-8b
    cluster: h100x4
    workload: {{isl: 512, osl: {osl}}}"""
SUITE = "name: mini\ndescription: ''\nagents: [random]\nseeds: 6\nbudget: e50\ntasks:" + "".join(
    TASK.format(name=name, osl=osl) for name, osl in (("short", 128), ("long", 1024))
)
AGENT = """
import time
from lts_bench.agent import Agent

class Napper(Agent):
    name, version, track = "napper", "1", "search"

    def run(self, problem, rng):
        for _ in range(5):
            problem.evaluate(problem.space.sample(10, rng))
            time.sleep(0.4)
"""


def start(folder: Path, out: str) -> subprocess.Popen[bytes]:
    command = ["run", "--suite", "mini.yaml", "--agent", "napper.py:Napper", "--workers", "2", "--out", out]
    return subprocess.Popen(
        [*COMMAND, *command, "--retry-failed"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def victims(driver: int) -> dict[str, list[int]]:
    """Return the living processes of a run by kind; an agent is a fork of a process that has imported it."""
    below = list(family(driver))[1:]
    return {
        "driver": [driver],
        "worker": [pid for pid in below if "multiprocessing.spawn" in command_line(pid)],
        "agent": [
            pid
            for pid in below
            if "harness.forking" in command_line(pid) and "harness.forking" in command_line(parent(pid))
        ],
    }


def finished(folder: Path) -> dict[str, int]:
    """Return when each good row was written."""
    rows = {path: json.loads(path.read_bytes()) for path in (folder / "mini").glob("?" * 64 + ".json")}
    return {path.name: path.stat().st_mtime_ns for path, row in rows.items() if row["status"] == "ok"}


def tables(folder: Path, out: str) -> list[str]:
    subprocess.run([*COMMAND, "report", out, "--out", f"board-{out}"], cwd=folder, check=True, capture_output=True)
    return [(folder / f"board-{out}" / "mini" / name).read_text() for name in TABLES]


def attack(driver: subprocess.Popen[bytes], chance: random.Random, counts: Counter[str]) -> None:
    """Kill one process of a run at a random moment, if it still runs then."""
    time.sleep(chance.uniform(1.0, 6.0))
    if driver.poll() is None:
        found = {kind: pids for kind, pids in victims(driver.pid).items() if pids}
        kind = chance.choice(sorted(found))
        os.kill(chance.choice(found[kind]), signal.SIGKILL)
        counts[kind] += 1


def main() -> None:
    """Kill until enough have been killed, finish every run, compare."""
    kills, seed = map(int, [*sys.argv[1:], *("50", "0")[len(sys.argv) - 1 :]])
    chance, counts, runs = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mini.yaml").write_text(SUITE)
        (folder / "napper.py").write_text(AGENT)
        assert start(folder, "undisturbed").wait() == 0
        expected = tables(folder, "undisturbed")
        while counts.total() < kills:
            out, before = f"run-{runs}", dict[str, int]()
            code: int | None = 1
            while code != 0:
                driver = start(folder, out)
                while driver.poll() is None and counts.total() < min(kills, KILLS_A_RUN * (runs + 1)):
                    attack(driver, chance, counts)
                code = driver.wait()
                after = finished(folder / out)
                assert before.items() <= after.items(), "a finished cell was lost or run again"
                before = after
            assert len(before) == 12, "cells are missing"
            assert tables(folder, out) == expected, "tables differ"
            runs += 1
            print(f"{runs} runs, killed: {dict(counts)}", flush=True)
    left = [pid for pid in family(os.getpid()) if pid != os.getpid()]
    assert not left, f"processes are left: {left}"
    print(f"{counts.total()} kills in {runs} runs: nothing lost, nothing run twice, tables identical")


if __name__ == "__main__":
    main()
