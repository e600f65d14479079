"""The rounds of one strategy at every batch size of the ladder, from the tables themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel
from lts_bench.cost.phases import LONE_PREFILL, PREFILL
from lts_bench.cost.program import overhead_seconds
from lts_bench.cost.steady import ROUND

FloatArray = NDArray[np.float64]


def stage_seconds(cost: CostModel, vector: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """((phases,) all stages, (phases,) the heaviest stage) of a legal vector."""
    tables, program, degrees = cost.tables, cost.program, int(vector[0])
    axes = int(program.two_axes[degrees])
    at = [0, *(int(tables.letters[column, axes, vector[column]]) for column in range(1, len(vector)))]
    times = np.zeros((len(tables.blocks), len(cost.setting.phases)))
    for edge in tables.edges:
        row = edge.base[degrees] + at[edge.source] * edge.targets[axes] + at[edge.target]
        times[edge.block] += tables.seconds(edge, row)
    send = tables.seconds(tables.sends, tables.sends.base[degrees] + at[tables.sends.source])
    overhead = overhead_seconds(cost.setting)
    counts, first = tables.stages, tables.stages.base[degrees]
    total = counts.totals[counts.total[degrees]] @ times + program.pp[degrees] * overhead + send
    stages = counts.counts[first : first + counts.many[degrees]] @ times + overhead
    return total, total if program.pp[degrees] == 1 else stages.max(axis=0)


def rounds(cost: CostModel, vector: NDArray[np.int64]) -> FloatArray:
    """(ROUND, rungs) rounds of a legal vector."""
    program, degrees, phases = cost.program, int(vector[0]), cost.setting.phases
    total, heaviest = stage_seconds(cost, vector)
    waits, shares = (rows[program.wait_row[degrees], phases.decode] for rows in (program.waits, program.shares))
    found = np.empty((ROUND, len(phases.batches)))
    found[0] = np.maximum(program.pp[degrees] * heaviest[phases.decode], total[phases.decode])
    found[1] = waits
    alone = heaviest[LONE_PREFILL]
    if phases.mixed:
        alone = heaviest[phases.decode.stop :] - heaviest[phases.decode]
    found[2] = alone + shares * (heaviest[PREFILL] - heaviest[LONE_PREFILL])
    found[3] = total[LONE_PREFILL] + shares * (total[PREFILL] - total[LONE_PREFILL])
    return found


def capacity(cost: CostModel, vector: NDArray[np.int64]) -> int:
    """Largest batch of a rank within the memory, at most the engine's; 0 where one sequence does not fit."""
    least, beyond = 0, cost.setting.engine.max_batch + 1
    while beyond - least > 1:
        batch = (least + beyond) // 2
        parts = cost.memory_parts(vector, batch)
        fits = parts["weights"] + parts["kv"] + parts["buffers"] <= parts["limit"]
        least, beyond = (batch, beyond) if fits else (least, batch)
    return least
