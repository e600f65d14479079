"""L2: cells that are run again, chosen by a hash that nobody can choose who does not know the salt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lts_bench.harness.execute import execute, identify_instances
from lts_bench.harness.rig import Rig, lot
from lts_bench.results.checks import Problem, Problems, Record, records
from lts_bench.results.schema import Row, Status, outcome

ELSEWHERE = 0.05
"""Difference of scores that is let pass where processor, Python or packages are others than those of the stored row."""


def rerun(rig: Rig, rows: Sequence[Row]) -> Iterator[Record]:
    """Run a share of the cells again, at least one of each agent, and compare outcomes bit by bit.

    Cells that were stopped at the time limit are left out: where that strikes is chance.
    """
    chosen = {row.run_id: row for row in _chosen(rig, rows)}
    cells = [rig.cell(row) for row in chosen.values()]
    instances = dict(identify_instances(rig.pool, list({(cell.task.spec, cell.instance): None for cell in cells})))
    for count, found in enumerate(execute(rig.pool, cells, instances, rig.directory), start=1):
        rig.progress(count, len(cells), f"{found.label} {found.task} seed {found.seed}")
        where = f"{found.label} {found.task} seed {found.seed}"
        stored = chosen.pop(found.run_id, None)
        yield from records("L2", "rerun", where, _differences(stored, found) if stored else _another_run(found))


def _chosen(rig: Rig, rows: Sequence[Row]) -> Iterator[Row]:
    seen: set[str] = set()
    for row in rig.drawn(row for row in rows if row.status is not Status.TIMEOUT):
        if row.label not in seen or lot(rig.demand.salt, row.run_id) < rig.demand.rerun:
            seen.add(row.label)
            yield row


def _another_run(found: Row) -> Problems:
    yield Problem("run_id", f"no stored row is of this run, {found.run_id}: parameters or track are others")


def _differences(stored: Row, found: Row) -> Problems:
    before, after = outcome(stored), outcome(found)
    field = next((name for name in before if before[name] != after[name]), None)
    if field is None or (_elsewhere(stored, found) and abs(stored.score - found.score) <= ELSEWHERE):
        return
    yield Problem(field, f"is {before[field]}, run again {after[field]}")


def _elsewhere(stored: Row, found: Row) -> bool:
    places = [(row.provenance.cpu, row.provenance.python, row.provenance.lock_digest) for row in (stored, found)]
    return places[0] != places[1]
