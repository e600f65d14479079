"""Verification by running agents: an honest one passes, one that remembers vectors and one that forges rows do not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_task import agent_file

from lts_bench.exact.certificates import certificate_of
from lts_bench.harness.reverify import verify_by_running
from lts_bench.harness.rig import Demand, lot
from lts_bench.harness.session import Options, run_suite
from lts_bench.results.checks import Record
from lts_bench.results.schema import Row, trace_digest
from lts_bench.results.store import read_store, write_grid, write_row
from lts_bench.results.verification import verify
from lts_bench.space.check import legal_strategy
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, load_suite
from lts_bench.task import Task

SPEC = next(spec for spec in load_suite("smoke").tasks if spec.name.startswith("llama-3.1-70b"))
HONEST = """
    while problem.remaining:
        problem.evaluate(problem.space.sample(25, rng))
"""


def quiet(done: int, total: int, last: str) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of an honest agent and of one that knows the optimum's vector, and both agents' files."""
    folder = tmp_path_factory.mktemp("reverify")
    task = Task(SPEC)
    strategy = legal_strategy(certificate_of(task, 1).strategy, task.model, task.cluster).strategy
    known = f"problem.evaluate([{task.space.encode(strategy).tolist()}])"
    refs = (agent_file(folder, HONEST, "honest"), agent_file(folder, known, "knowing"))
    suite = Suite("mini", "", refs, 2, "e50", (SPEC,))
    run_suite(suite, Options(out=folder / "runs"), quiet)
    return folder


def verified(folder: Path, **demand: object) -> list[Record]:
    refs = tuple(f"{folder / name}.py:Mine" for name in ("honest", "knowing"))
    wanted = msgspec.structs.replace(Demand(salt="salt", agents=refs), **demand)
    found = verify_by_running([folder / "runs"], wanted, quiet)
    *others, last = found
    assert (last.name, last.ok, "only sealed" in last.message) == ("isolation", True, True)
    return others


def test_cells_run_again_are_the_same(folder: Path) -> None:
    records = verified(folder, rerun=1.0)
    assert [(record.level, record.name, record.ok) for record in records] == [("L2", "rerun", True)] * 4


def forged(row: Row) -> Row:
    """Return the row as of an agent that found its strategies later: every score in it is right."""
    trace = tuple(msgspec.structs.replace(point, evaluation=point.evaluation + 1) for point in row.trace)
    first = None if row.first_feasible is None else row.first_feasible + 1
    return msgspec.structs.replace(row, trace=trace, trace_digest=trace_digest(trace), first_feasible=first)


def drawn(folder: Path, salt: str) -> Row:
    """Return the honest agent's cell that comes first."""
    rows = [row for row in read_store([folder / "runs"]).rows.values() if row.agent == "honest"]
    return min(rows, key=lambda row: lot(salt, row.run_id))


def test_a_forged_trace_with_right_scores_is_found_by_running_again(folder: Path, tmp_path: Path) -> None:
    stored = read_store([folder / "runs"])
    for row in stored.rows.values():
        write_row(tmp_path / "runs", forged(row) if row.agent == "honest" and row.seed == 1 else row)
    write_grid(tmp_path / "runs", stored.grids["mini"])
    for name in ("honest", "knowing"):
        (tmp_path / f"{name}.py").write_bytes((folder / f"{name}.py").read_bytes())
    assert all(record.ok for record in verify([tmp_path / "runs"]))
    # However small the share, each agent has a cell; with this salt it is the forged one.
    demand = {"rerun": 1e-9, "salt": next(salt for salt in "abcdefgh" if drawn(tmp_path, salt).seed == 1)}
    right, wrong = sorted(verified(tmp_path, **demand), key=lambda record: not record.ok)
    assert right.file.startswith("knowing@1")
    assert (wrong.name, wrong.file) == ("rerun", f"honest@1 {SPEC.name} seed 1")
    assert wrong.field in ("first_feasible", "trace_digest")


def test_audits_find_who_remembers_vectors(folder: Path) -> None:
    records = {(record.name, record.file): record for record in verified(folder, audit=True)}
    assert {name for name, _ in records} == {"relabelled", "perturbed", "no_evaluations"}
    assert [key for key, record in records.items() if not record.ok] == [("relabelled", "knowing@1")]
    assert records["relabelled", "knowing@1"].message.startswith("relabelled: ")


def test_held_out_tasks_are_told_beside_the_references(folder: Path) -> None:
    records = verified(folder, heldout=1)
    assert [(record.file, record.ok) for record in records] == [
        (f"{label} e50", True) for label in ("honest@1", "knowing@1", "megatron_search@1", "random@1")
    ]
    assert "gap" in records[0].message
    assert "gap" not in records[2].message


def test_an_agent_whose_source_is_of_another_version_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such agent"):
        verify_by_running([folder / "runs"], Demand(rerun=0.1), quiet)
    changed = tmp_path / "honest.py"
    changed.write_text((folder / "honest.py").read_text().replace('"1"', '"2"'))
    (tmp_path / "runs").symlink_to(folder / "runs")
    (tmp_path / "knowing.py").write_bytes((folder / "knowing.py").read_bytes())
    with pytest.raises(InputError, match="no such agent"):
        verified(tmp_path, rerun=0.1)


def test_nobody_can_choose_what_is_run_again() -> None:
    lots = np.array([[lot(salt, str(number)) for number in range(2000)] for salt in ("a", "b")])
    assert 0.45 < lots[0].mean() < 0.55
    assert abs(np.corrcoef(lots)[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("demand", "levels"),
    [
        (Demand(rerun=0.1, heldout=2, audit=True), ()),
        (Demand(rerun=0.1, isolation="sealed"), ("L2",)),
        (Demand(rerun=0.1, heldout=2, isolation="sealed"), ("L2",)),
        (Demand(rerun=0.1, heldout=2, audit=True, isolation="sealed"), ("L2", "L3")),
        (Demand(heldout=2, audit=True, isolation="sealed"), ()),
    ],
)
def test_levels_above_l1_need_sandboxes_and_all_that_they_stand_for(demand: Demand, levels: tuple[str, ...]) -> None:
    assert demand.levels == levels
