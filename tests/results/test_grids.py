from __future__ import annotations

import msgspec
from made_rows import PROVENANCE, make_cells

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.results.grids import Grid
from lts_bench.specs.suite import Suite, load_suite
from lts_bench.task import Task

CURRENT = msgspec.structs.replace(PROVENANCE, cost_model=COST_MODEL_VERSION)


def test_tasks_of_one_name_in_two_suites_are_told_apart() -> None:
    first = load_suite("smoke").tasks[0]
    slower = msgspec.structs.replace(first.workload, osl=256)
    second = msgspec.structs.replace(first, workload=slower)
    grids = [Grid.of(Suite(name, "", ("random",), 2, "e50", (spec,))) for name, spec in (("a", first), ("b", second))]
    digests = [Task(spec).digest for spec in (first, second)]
    cells = [
        make_cells(grid, {agent: 1.0}, task_digest=digest, provenance=CURRENT)
        for agent, grid, digest in zip("ab", grids, digests, strict=True)
    ]
    rows = [row for mine in cells for row in mine]
    assert [grid.own_rows(rows) for grid in grids] == cells
    # An older cost model has other digests; its rows are stale, not another task's.
    older = make_cells(grids[0], {"o": 1.0}, task_digest="older")
    assert grids[0].own_rows(rows + older) == cells[0] + older
