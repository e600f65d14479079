"""The compiled loop: a strategy's rows are gathered and summed, then the best batch size is found."""

from __future__ import annotations

import numpy as np

from lts_bench.answer import ILLEGAL_VIOLATION
from lts_bench.cost.compiled import compiled
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.program import HEAD, EdgeRows, FloatArray, IntArray, OperatorRows, Program
from lts_bench.cost.steady import (
    ROUND,
    Replica,
    Round,
    Rules,
    batch_capacity,
    best_batch,
    excess,
    last_rung,
    memory_bytes,
    round_at,
    round_seconds,
    ttft_terms,
)
from lts_bench.cost.tables import ILLEGAL_SECONDS

GOODPUT, FEASIBLE, LEGAL, TTFT, TPOT, MEMORY, OVER_MEMORY, OVER_TTFT, OVER_TPOT, BATCH, ROUND_SECONDS = range(11)
"""Columns of an evaluation's raw result; BATCH and ROUND_SECONDS are b and s."""
COLUMNS = 11


@compiled
def find_positions(
    vector: IntArray, sizes: IntArray, letters: IntArray, two_axes: IntArray, positions: IntArray
) -> bool:
    """Fill every decision's position on the mesh; False where an entry is out of range."""
    inside = True
    for column in range(len(sizes)):
        inside &= (vector[column] >= 0) & (vector[column] < sizes[column])
    if not inside:
        return False
    axes = two_axes[vector[0]]
    for column in range(1, len(sizes)):
        positions[column] = letters[column, axes, vector[column]]
    return True


@compiled
def gather_memory(
    operators: OperatorRows,
    degrees: int,
    positions: IntArray,
    blocks: FloatArray,
    counts: FloatArray,
    stages: FloatArray,
) -> float:
    """Fill (distinct stages, 3) bytes of weights and one sequence's KV from the block counts; the largest buffer."""
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
                held += counts[stage, block] * blocks[block, column]
            stages[stage, column] = held
    return buffers


@compiled
def find_rows(edges: EdgeRows, degrees: int, axes: int, positions: IntArray, rows: IntArray) -> None:
    """Fill the row of every edge."""
    for edge in range(len(edges.block)):
        row = edges.base[degrees, edge] + positions[edges.source[edge]] * edges.targets[axes, edge]
        row += positions[edges.target[edge]]
        rows[edge] = row


@compiled
def gather_times(
    edges: EdgeRows, seconds: FloatArray, before: int, rows: IntArray, blocks: FloatArray, phases: int
) -> None:
    """Sum every block's rows of ``seconds``, the phases after ``before``, into the first ``phases`` of ``blocks``."""
    for block in range(blocks.shape[0]):
        for phase in range(phases):
            blocks[block, phase] = 0.0
    for edge in range(len(rows)):
        block, row = edges.block[edge], rows[edge]
        for phase in range(min(phases, edges.phases[edge] - before)):
            blocks[block, phase] += seconds[row, phase]


@compiled
def has_illegal(blocks: FloatArray) -> bool:
    """Whether a gathered row was that of an illegal choice."""
    illegal = False
    for block in range(blocks.shape[0]):
        illegal |= blocks[block, PREFILL] >= ILLEGAL_SECONDS
    return illegal


@compiled
def sum_blocks(
    start: FloatArray, host: float, overhead: FloatArray, counts: FloatArray, times: FloatArray, phases: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Fill the first ``phases`` of ``out`` with ``start``, ``host`` host steps and the counted blocks."""
    for phase in range(phases):
        out[phase] = start[phase] + host * overhead[phase]
    for block in range(len(counts)):
        count = counts[block]
        if count > 0:
            for phase in range(phases):
                out[phase] += count * times[block, phase]


@compiled
def heaviest_stage(
    counts: FloatArray, nothing: FloatArray, overhead: FloatArray, times: FloatArray, phases: int, stage: FloatArray,
    heaviest: FloatArray,
) -> None:  # fmt: skip
    """Fill the first ``phases`` of ``heaviest`` with the time of the heaviest stage; ``stage`` is scratch."""
    sum_blocks(nothing, 1.0, overhead, counts[0], times, phases, heaviest)
    for row in range(1, counts.shape[0]):
        sum_blocks(nothing, 1.0, overhead, counts[row], times, phases, stage)
        for phase in range(phases):
            heaviest[phase] = max(heaviest[phase], stage[phase])


@compiled
def fill_rounds(
    total: FloatArray, heaviest: FloatArray, waits: FloatArray, shares: FloatArray, pp: float, rungs: int,
    rounds: FloatArray,
) -> None:  # fmt: skip
    """Fill the rounds of the first ``rungs``: td = max(pp · heaviest stage, all stages), and the prefills.

    A prefill costs what it does when one rank has a prompt, and ``shares`` of what more it does when all ranks have.
    """
    service, more_service = heaviest[LONE_PREFILL], heaviest[PREFILL] - heaviest[LONE_PREFILL]
    prefill, more_prefill = total[LONE_PREFILL], total[PREFILL] - total[LONE_PREFILL]
    for rung in range(rungs):
        rounds[0, rung] = max(pp * heaviest[FIRST_RUNG + rung], total[FIRST_RUNG + rung])
        rounds[1, rung] = waits[rung]
        rounds[2, rung] = service + shares[rung] * more_service
        rounds[3, rung] = prefill + shares[rung] * more_prefill


@compiled
def report_violation(
    replica: Replica, rules: Rules, batches: FloatArray, rounds: FloatArray, rungs: int, stages: FloatArray,
    buffers: float, out: FloatArray,
) -> None:  # fmt: skip
    """Fill the excess over each limit at the rung with the least sum, TTFT taken at s = td; ties: the smallest rung.

    Rungs up to the first that exceeds the memory or, decoding alone, the TPOT limit are looked at. Memory, TPOT and
    TTFT without the queue rise with the batch, so the search ends where they alone reach the least sum.
    """
    best = np.inf
    for rung in range(min(last_rung(replica, rules, batches, rounds, rungs) + 2, rungs)):
        at = round_at(rounds, rung)
        base, c, queue = ttft_terms(replica, rules, at)
        ttft, tpot = base + c * at.decode + queue / at.decode, at.decode + at.waits * at.service
        memory = memory_bytes(stages, batches[rung] * replica.pp) + buffers
        over_memory, over_tpot = excess(memory, rules.memory_limit), excess(tpot, rules.tpot_limit)
        over_ttft = excess(ttft, rules.ttft_limit)
        if over_memory + over_ttft + over_tpot < best:
            best = over_memory + over_ttft + over_tpot
            out[OVER_MEMORY], out[OVER_TTFT], out[OVER_TPOT] = over_memory, over_ttft, over_tpot
            out[TTFT], out[TPOT], out[MEMORY] = ttft, tpot, memory
            out[BATCH], out[ROUND_SECONDS] = batches[rung], at.decode
        least_ttft = base + rules.quantile / replica.pp * at.decode
        if over_memory + over_tpot + excess(least_ttft, rules.ttft_limit) >= best:
            break


@compiled
def report_feasible(
    replica: Replica, rules: Rules, batch: float, at: Round, stages: FloatArray, buffers: float, out: FloatArray
) -> None:
    """Fill TTFT, TPOT and memory of the best point."""
    base, c, queue = ttft_terms(replica, rules, at)
    s = round_seconds(at.decode, base, c, queue, rules.ttft_limit)
    out[FEASIBLE] = 1.0
    out[TTFT], out[TPOT] = base + c * s + queue / s, s + at.waits * at.service
    out[MEMORY] = memory_bytes(stages, batch * replica.pp) + buffers
    out[BATCH], out[ROUND_SECONDS] = batch, s


@compiled
def rungs_needed(batches: FloatArray, capacity: float) -> int:
    """Every rung within the capacity and the one above, two at least."""
    rungs = 1
    while rungs < len(batches) and batches[rungs - 1] <= capacity:
        rungs += 1
    return max(rungs, min(2, len(batches)))


@compiled
def evaluate_all(program: Program, vectors: IntArray, out: FloatArray) -> None:
    """Evaluate (n, decisions) vectors into (n, COLUMNS) raw results, one after the other."""
    edges, operators, batches, rules = program.edges, program.operators, program.batches, program.rules
    blocks, most_phases = program.stage_rows.shape[1], FIRST_RUNG + len(batches)
    head, tail, memory = np.empty((blocks, HEAD)), np.empty((blocks, most_phases)), np.empty((blocks, 3))
    total, stage, slowest = np.empty(most_phases), np.empty(most_phases), np.empty(most_phases)
    total_tail, slowest_tail, overhead_tail = total[HEAD:], slowest[HEAD:], program.overhead[HEAD:]
    nothing, rounds = np.zeros(most_phases), np.empty((ROUND, len(batches)))
    stages = np.empty((program.stage_count.max(), 3))
    positions, rows = np.zeros(vectors.shape[1], np.int64), np.empty(len(edges.block), np.int64)
    for index in range(vectors.shape[0]):
        result = out[index]
        result[:] = 0.0
        result[OVER_MEMORY : OVER_TPOT + 1] = ILLEGAL_VIOLATION
        degrees = vectors[index, 0]
        if not find_positions(vectors[index], program.sizes, program.letters, program.two_axes, positions):
            continue
        find_rows(edges, degrees, program.two_axes[degrees], positions, rows)
        pp, dp = program.pp[degrees], program.dp[degrees]
        first, count = program.stage_base[degrees], program.stage_count[degrees]
        mine, counts = stages[:count], program.stage_rows[first : first + count]
        held = counts
        if program.stored[positions[-2]] == program.stored[positions[-1]]:
            held = program.stage_memory[first : first + count]
        buffers = program.fixed_bytes + gather_memory(operators, degrees, positions, memory, held, mine)
        replica = Replica(batch_capacity(mine, pp, rules.memory_limit - buffers), pp, dp)
        rungs = rungs_needed(batches, replica.capacity)
        phases = min(FIRST_RUNG + rungs, HEAD)
        gather_times(edges, edges.head, 0, rows, head, phases)
        if has_illegal(head):
            continue
        send = program.send_base[degrees] + positions[program.send_decision]
        totals, host = program.totals[program.total_row[degrees]], program.overhead
        sum_blocks(edges.head[send], pp, host, totals, head, phases, total)
        heaviest = total
        if pp > 1:
            heaviest = slowest
            heaviest_stage(counts, nothing, host, head, phases, stage, heaviest)
        more = FIRST_RUNG + rungs - HEAD
        if more > 0 and not 0 < rules.tpot_limit < total[HEAD - 1]:
            gather_times(edges, edges.tail, HEAD, rows, tail, more)
            sum_blocks(edges.tail[send], pp, overhead_tail, totals, tail, more, total_tail)
            if pp > 1:
                heaviest_stage(counts, nothing, overhead_tail, tail, more, stage, slowest_tail)
        else:
            rungs = phases - FIRST_RUNG
        wait_row = program.wait_row[degrees]
        fill_rounds(total, heaviest, program.waits[wait_row], program.shares[wait_row], pp, rungs, rounds)
        found, batch, at = best_batch(replica, rules, batches, rounds, rungs)
        result[:] = 0.0
        result[LEGAL] = 1.0
        if found > 0.0:
            result[GOODPUT] = program.replicas[degrees] * dp * found / program.npus
            report_feasible(replica, rules, batch, at, mine, buffers, result)
        else:
            report_violation(replica, rules, batches, rounds, rungs, mine, buffers, result)
