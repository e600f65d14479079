"""The compiled loop: a strategy's rows are gathered and summed, then the best batch size is found."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.program import EdgeRows, FloatArray, IntArray, OperatorRows, Program
from lts_bench.cost.steady import Replica, Rules, batch_capacity, best_batch, excess, memory_bytes, round_seconds, ttft_terms

GOODPUT, FEASIBLE, LEGAL, TTFT, TPOT, MEMORY, OVER_MEMORY, OVER_TTFT, OVER_TPOT, BATCH, ROUND = range(11)
"""Columns of an evaluation's raw result; BATCH and ROUND are b and the round time s in seconds."""
COLUMNS = 11
ILLEGAL_SECONDS = 1e14
OVER_ILLEGAL = 1e3


@compiled
def find_positions(
    vector: IntArray, sizes: IntArray, letters: IntArray, two_axes: IntArray, positions: IntArray
) -> bool:
    """Fill every decision's position on the mesh; False where an entry is out of range."""
    for column in range(len(sizes)):
        if vector[column] < 0 or vector[column] >= sizes[column]:
            return False
    axes = two_axes[vector[0]]
    for column in range(1, len(sizes)):
        positions[column] = letters[column, axes, vector[column]]
    return True


@compiled
def gather_memory(
    operators: OperatorRows, degrees: int, positions: IntArray, blocks: FloatArray, counts: FloatArray, stages: FloatArray
) -> float:
    """Fill (distinct stages, 3) bytes of weights and of one sequence's KV from their block counts; the largest buffer."""
    blocks[:] = 0.0
    buffers = 0.0
    for operator in range(len(operators.block)):
        block = operators.block[operator]
        row = operators.base[degrees, operator] + positions[operators.decision[operator]]
        for column in range(3):
            blocks[block, column] += operators.memory[row, column]
        buffers = max(buffers, operators.memory[row, 3])
    for stage in range(counts.shape[0]):
        for column in range(3):
            held = 0.0
            for block in range(blocks.shape[0]):
                held += counts[stage, 1 + block] * blocks[block, column]
            stages[stage, column] = held
    return buffers


@compiled
def gather_times(edges: EdgeRows, degrees: int, axes: int, positions: IntArray, blocks: FloatArray, phases: int) -> bool:
    """Sum every block's rows into the first ``phases`` of (blocks, phases); False where a choice is illegal."""
    for block in range(blocks.shape[0]):
        for phase in range(phases):
            blocks[block, phase] = 0.0
    for edge in range(len(edges.block)):
        block = edges.block[edge]
        row = edges.base[degrees, edge] + positions[edges.source[edge]] * edges.targets[axes, edge]
        row += positions[edges.target[edge]]
        if edges.times[row, 0] >= ILLEGAL_SECONDS:
            return False
        for phase in range(phases):
            blocks[block, phase] += edges.times[row, phase]
    return True


@compiled
def combine_stages(
    counts: FloatArray, overhead: FloatArray, blocks: FloatArray, heaviest: FloatArray, total: FloatArray,
    stage: FloatArray, phases: int,
) -> None:  # fmt: skip
    """Times of the heaviest stage; those of all stages are added to ``total``, in the first ``phases``."""
    for phase in range(phases):
        heaviest[phase] = 0.0
    for row in range(counts.shape[0]):
        for phase in range(phases):
            stage[phase] = overhead[phase]
        for block in range(blocks.shape[0]):
            count = counts[row, 1 + block]
            if count > 0:
                for phase in range(phases):
                    stage[phase] += count * blocks[block, phase]
        many = counts[row, 0]
        for phase in range(phases):
            heaviest[phase] = max(heaviest[phase], stage[phase])
            total[phase] += many * stage[phase]


@compiled
def report_violation(
    replica: Replica, rules: Rules, batches: FloatArray, decode: FloatArray, waits: FloatArray, stages: FloatArray,
    buffers: float, out: FloatArray,
) -> None:  # fmt: skip
    """Fill the excess over each limit at the rung with the least sum, TTFT taken at s = td; ties: the smallest rung.

    Rungs up to the first that exceeds the memory are looked at. Memory, TPOT and TTFT without the queue rise with the
    batch, so the search ends where they alone reach the least sum.
    """
    best = np.inf
    for rung in range(len(decode)):
        td, wait = decode[rung], waits[rung]
        base, c, queue = ttft_terms(replica, rules, wait)
        ttft, tpot = base + c * td + queue / td, td + wait * replica.heaviest_prefill
        memory = memory_bytes(stages, batches[rung] * replica.pp) + buffers
        over_memory, over_tpot = excess(memory, rules.memory_limit), excess(tpot, rules.tpot_limit)
        over_ttft = excess(ttft, rules.ttft_limit)
        if over_memory + over_ttft + over_tpot < best:
            best = over_memory + over_ttft + over_tpot
            out[OVER_MEMORY], out[OVER_TTFT], out[OVER_TPOT] = over_memory, over_ttft, over_tpot
            out[TTFT], out[TPOT], out[MEMORY] = ttft, tpot, memory
            out[BATCH], out[ROUND] = batches[rung], td
        least_ttft = base + rules.quantile / replica.pp * td
        if over_memory + over_tpot + excess(least_ttft, rules.ttft_limit) >= best:
            break


@compiled
def report_feasible(
    replica: Replica, rules: Rules, found: tuple[float, float, float, float], stages: FloatArray,
    buffers: float, out: FloatArray,
) -> None:  # fmt: skip
    """Fill TTFT, TPOT and memory of the best point (rate, b, td, w)."""
    _, batch, td, wait = found
    base, c, queue = ttft_terms(replica, rules, wait)
    s = round_seconds(td, base, c, queue, rules.ttft_limit)
    out[FEASIBLE] = 1.0
    out[TTFT], out[TPOT] = base + c * s + queue / s, s + wait * replica.heaviest_prefill
    out[MEMORY] = memory_bytes(stages, batch * replica.pp) + buffers
    out[BATCH], out[ROUND] = batch, s


@compiled
def phases_needed(batches: FloatArray, capacity: float) -> int:
    """The prefill, every rung within the capacity and the one above, two rungs at least."""
    rungs = 1
    while rungs < len(batches) and batches[rungs - 1] <= capacity:
        rungs += 1
    return 1 + max(rungs, min(2, len(batches)))


@compiled
def evaluate_all(program: Program, vectors: IntArray, order: IntArray, out: FloatArray) -> None:
    """Evaluate (n, decisions) vectors into (n, COLUMNS) raw results, one after the other in ``order``."""
    edges, operators, batches, rules = program.edges, program.operators, program.batches, program.rules
    most_phases, blocks = edges.times.shape[1], program.stage_rows.shape[1] - 1
    times, memory = np.empty((blocks, most_phases)), np.empty((blocks, 3))
    heaviest, total, stage = np.empty(most_phases), np.empty(most_phases), np.empty(most_phases)
    stages = np.empty((program.stage_count.max(), 3))
    positions = np.zeros(vectors.shape[1], np.int64)
    for index in order:
        row = out[index]
        row[:] = 0.0
        row[OVER_MEMORY : OVER_TPOT + 1] = OVER_ILLEGAL
        if not find_positions(vectors[index], program.sizes, program.letters, program.two_axes, positions):
            continue
        degrees = vectors[index, 0]
        pp, dp = program.pp[degrees], program.dp[degrees]
        first, count = program.stage_base[degrees], program.stage_count[degrees]
        mine = stages[:count]
        held = program.stage_memory[first : first + count]
        buffers = program.fixed_bytes + gather_memory(operators, degrees, positions, memory, held, mine)
        capacity = batch_capacity(mine, pp, rules.memory_limit - buffers)
        phases = phases_needed(batches, capacity)
        if not gather_times(edges, degrees, program.two_axes[degrees], positions, times, phases):
            continue
        send = program.send_base[degrees] + positions[program.send_decision]
        for phase in range(phases):
            total[phase] = edges.times[send, phase]
        combine_stages(
            program.stage_rows[first : first + count], program.overhead, times, heaviest, total, stage, phases
        )
        replica = Replica(heaviest[0], total[0], capacity, pp, dp)
        for phase in range(1, phases):
            total[phase] = max(pp * heaviest[phase], total[phase])
        decode, waits = total[1:phases], program.waits[program.wait_row[degrees]]
        found = best_batch(replica, rules, batches, decode, waits)
        row[:] = 0.0
        row[LEGAL] = 1.0
        if found[0] > 0.0:
            row[GOODPUT] = program.replicas[degrees] * dp * found[0] / program.npus
            report_feasible(replica, rules, found, mine, buffers, row)
        else:
            report_violation(replica, rules, batches, decode, waits, mine, buffers, row)
