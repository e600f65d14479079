"""Agents are imported once and forked for each cell: what that shares, and what happens when it breaks."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from small_task import OPTIMUM, SmallTask, agent_file, small_cell

from lts_bench.harness.nursery import MOST, close_nurseries, nursery_of, nursery_pids
from lts_bench.harness.runner import run_cell
from lts_bench.registry import describe_agent
from lts_bench.results.schema import Row, Status

COUNTING = """
    global COUNT
    COUNT += 1
    print("cell", COUNT)
    problem.evaluate([[3, 15, 15]])
"""


def run(ref: str, tmp_path: Path) -> tuple[Row, str]:
    row = run_cell(small_cell(ref), SmallTask(), OPTIMUM, tmp_path / "log")
    return row, (tmp_path / "log").read_text()


def with_import(ref: str, line: str) -> str:
    path = Path(ref.partition(":")[0])
    path.write_text(f"{line}\n{path.read_text()}")
    return ref


def test_cells_share_the_import_and_nothing_of_one_another(tmp_path: Path) -> None:
    ref = with_import(agent_file(tmp_path, COUNTING), "COUNT = 0\nprint('imported')")
    for _ in range(2):
        row, log = run(ref, tmp_path)
        assert row.status is Status.OK
        assert (log.splitlines()[0], log.splitlines()[-1]) == ("imported", "cell 1")
    assert len({nursery_of(describe_agent(ref)).pid for _ in range(2)}) == 1


def test_a_process_that_ends_while_importing_is_a_crash(tmp_path: Path) -> None:
    row, _ = run(with_import(agent_file(tmp_path, "pass"), "import os; os._exit(3)"), tmp_path)
    assert (row.status, row.error) == (Status.CRASH, "the agent's process ended while it was imported")


def test_an_import_that_fails_is_told_in_the_cell(tmp_path: Path) -> None:
    row, log = run(with_import(agent_file(tmp_path, "pass"), "raise KeyError('no')"), tmp_path)
    assert row.status is Status.CRASH
    assert row.error is not None
    assert "KeyError: 'no'" in row.error
    assert "Traceback" in log


def test_whoever_kills_the_nursery_ends_with_it_and_the_next_cell_has_another(tmp_path: Path) -> None:
    ref = agent_file(tmp_path, "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(3600)")
    row, _ = run(ref, tmp_path)
    assert row.status is Status.OOM
    path = Path(ref.partition(":")[0])
    path.write_text(path.read_text().replace("os.kill(os.getppid(), 9)", "return"))
    assert run(ref, tmp_path)[0].status is Status.NO_SOLUTION


def test_a_nursery_that_was_killed_is_replaced(tmp_path: Path) -> None:
    info = describe_agent(agent_file(tmp_path, COUNTING))
    first = nursery_of(info)
    os.kill(first.pid, signal.SIGKILL)
    first._process.wait()
    assert nursery_of(info).pid != first.pid


def test_only_some_are_kept_and_all_end(tmp_path: Path) -> None:
    close_nurseries()
    for number in range(MOST + 1):
        nursery_of(describe_agent(agent_file(tmp_path, "pass", f"agent{number}")))
    pids = nursery_pids()
    assert len(pids) == MOST
    close_nurseries()
    assert nursery_pids() == set()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
