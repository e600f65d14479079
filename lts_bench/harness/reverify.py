"""What ``lts-bench verify`` finds by running agents: re-runs, held-out tasks, audits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.harness.audits import audit
from lts_bench.harness.heldout import heldout
from lts_bench.harness.reruns import rerun
from lts_bench.harness.rig import Demand, Progress, open_rig
from lts_bench.results.checks import Record
from lts_bench.results.verification import read_readable


def verify_by_running(paths: Sequence[Path], demand: Demand, progress: Progress) -> list[Record]:
    """Run agents of stored rows as demanded, and return what comes of it.

    Raises:
        InputError: no suite holds the rows, or the source of an agent is not at hand.
        WorkerLost: a worker was killed.
    """
    # What cannot be read is told by the other checks.
    stored, _ = read_readable(paths, [])
    rows = [row for row in stored.rows.values() if row.provenance.cost_model == COST_MODEL_VERSION]
    specs = {spec.name: spec for grid in stored.suites() for spec in grid.specs}
    wanted = [spec for name, spec in specs.items() if name in {row.task for row in rows}]
    found: list[Record] = []
    with open_rig(demand, paths, rows, wanted, progress) as rig:
        if demand.rerun > 0:
            found += rerun(rig, rows)
        if demand.heldout:
            found += heldout(rig, rows)
        if demand.audit:
            found += audit(rig, rows)
    if demand.isolation != "sealed":
        message = f"agents ran as {demand.isolation}: only sealed runs earn a badge above L1"
        found.append(Record("L2", "isolation", True, "", "isolation", message))
    return found
