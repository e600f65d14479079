"""The compiled loop: a strategy's rows are gathered and summed, then the best batch size is found."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.program import FloatArray, IntArray, Program
from lts_bench.cost.steady import Replica, batch_capacity, best_batch, excess, memory_bytes, round_seconds, ttft_terms

GOODPUT, FEASIBLE, LEGAL, TTFT, TPOT, MEMORY, OVER_MEMORY, OVER_TTFT, OVER_TPOT, BATCH, ROUND = range(11)
"""Columns of an evaluation's raw result; BATCH and ROUND are b and the round time s in seconds."""
COLUMNS = 11
ILLEGAL_SECONDS = 1e14
OVER_ILLEGAL = 1e3


@compiled
def in_range(program: Program, vector: IntArray) -> bool:
    """Whether every entry is a choice of its decision."""
    inside = True
    for column in range(len(program.sizes)):
        inside &= 0 <= vector[column] < program.sizes[column]
    return inside


@compiled
def gather_memory(program: Program, vector: IntArray, blocks: FloatArray, stages: FloatArray) -> float:
    """Fill (distinct stages, 3) bytes of weights and of one sequence's KV; the largest buffer."""
    blocks[:] = 0.0
    buffers = 0.0
    degrees = vector[0]
    mode = program.two_axes[degrees]
    for operator in range(len(program.operator_block)):
        decision, block = program.operator_decision[operator], program.operator_block[operator]
        row = program.operator_base[degrees, operator] + program.letters[decision, mode, vector[decision]]
        for column in range(3):
            blocks[block, column] += program.memory[row, column]
        buffers = max(buffers, program.memory[row, 3])
    first = program.stage_base[degrees]
    for stage in range(program.stage_count[degrees]):
        for column in range(3):
            held = 0.0
            for block in range(blocks.shape[0]):
                held += program.stage_memory[first + stage, 1 + block] * blocks[block, column]
            stages[stage, column] = held
    return buffers + program.fixed_bytes


@compiled
def gather_times(program: Program, vector: IntArray, blocks: FloatArray, phases: int) -> bool:
    """Sum every block's rows into the first ``phases`` of (blocks, phases); False where a choice is illegal."""
    blocks[:, :phases] = 0.0
    degrees = vector[0]
    mode = program.two_axes[degrees]
    for edge in range(len(program.edge_block)):
        source, target, block = program.edge_source[edge], program.edge_target[edge], program.edge_block[edge]
        i = program.letters[source, mode, vector[source]]
        j = program.letters[target, mode, vector[target]]
        row = program.edge_base[degrees, edge] + i * program.edge_targets[degrees, edge] + j
        if program.times[row, 0] >= ILLEGAL_SECONDS:
            return False
        for phase in range(phases):
            blocks[block, phase] += program.times[row, phase]
    return True


@compiled
def combine_stages(
    program: Program, vector: IntArray, blocks: FloatArray, heaviest: FloatArray, total: FloatArray,
    stage: FloatArray, phases: int,
) -> None:  # fmt: skip
    """Times of the heaviest stage, and of all stages with their boundaries, in the first ``phases``."""
    degrees, decision = vector[0], program.send_decision
    send = program.send_base[degrees] + program.letters[decision, program.two_axes[degrees], vector[decision]]
    for phase in range(phases):
        total[phase] = program.times[send, phase]
        heaviest[phase] = 0.0
    first = program.stage_base[degrees]
    for row in range(first, first + program.stage_count[degrees]):
        for phase in range(phases):
            stage[phase] = program.overhead[phase]
        for block in range(blocks.shape[0]):
            count = program.stage_rows[row, 1 + block]
            if count > 0:
                for phase in range(phases):
                    stage[phase] += count * blocks[block, phase]
        many = program.stage_rows[row, 0]
        for phase in range(phases):
            heaviest[phase] = max(heaviest[phase], stage[phase])
            total[phase] += many * stage[phase]


@compiled
def report_violation(
    program: Program, replica: Replica, decode: FloatArray, waits: FloatArray, stages: FloatArray,
    buffers: float, out: FloatArray,
) -> None:  # fmt: skip
    """Fill the excess over each limit at the rung with the least sum, TTFT taken at s = td; ties: the smallest rung.

    Rungs up to the first that exceeds the memory are looked at: beyond it every excess rises.
    """
    best = np.inf
    rules = program.rules
    for rung in range(len(decode)):
        td, wait = decode[rung], waits[rung]
        base, c, queue = ttft_terms(replica, rules, wait)
        ttft, tpot = base + c * td + queue / td, td + wait * replica.heaviest_prefill
        memory = memory_bytes(stages, program.batches[rung] * replica.pp) + buffers
        over_memory, over_tpot = excess(memory, rules.memory_limit), excess(tpot, rules.tpot_limit)
        over_ttft = excess(ttft, rules.ttft_limit)
        if over_memory + over_ttft + over_tpot < best:
            best = over_memory + over_ttft + over_tpot
            out[OVER_MEMORY], out[OVER_TTFT], out[OVER_TPOT] = over_memory, over_ttft, over_tpot
            out[TTFT], out[TPOT], out[MEMORY] = ttft, tpot, memory
            out[BATCH], out[ROUND] = program.batches[rung], td
        if over_memory + over_tpot >= best:
            break


@compiled
def phases_needed(batches: FloatArray, capacity: float) -> int:
    """The prefill, every rung within the capacity and the one above, two rungs at least."""
    rungs = 1
    while rungs < len(batches) and batches[rungs - 1] <= capacity:
        rungs += 1
    return 1 + max(rungs, min(2, len(batches)))


@compiled
def evaluate_one(
    program: Program, vector: IntArray, blocks: FloatArray, heaviest: FloatArray, total: FloatArray,
    stage: FloatArray, memory: FloatArray, stages: FloatArray, out: FloatArray,
) -> bool:  # fmt: skip
    """Evaluate one vector into a row of raw results; False where it is illegal. The other arrays are scratch."""
    if not in_range(program, vector):
        return False
    degrees = vector[0]
    mine = stages[: program.stage_count[degrees]]
    buffers = gather_memory(program, vector, memory, mine)
    pp, dp, rules = program.pp[degrees], program.dp[degrees], program.rules
    capacity = batch_capacity(mine, pp, rules.memory_limit - buffers)
    phases = phases_needed(program.batches, capacity)
    if not gather_times(program, vector, blocks, phases):
        return False
    combine_stages(program, vector, blocks, heaviest, total, stage, phases)
    replica = Replica(heaviest[0], total[0], capacity, pp, dp)
    for phase in range(1, phases):
        total[phase] = max(pp * heaviest[phase], total[phase])
    decode, waits = total[1:phases], program.waits[program.wait_row[degrees]]
    found, batch, td, wait = best_batch(replica, rules, program.batches, decode, waits)
    out[LEGAL] = 1.0
    if found <= 0.0:
        report_violation(program, replica, decode, waits, mine, buffers, out)
        return True
    base, c, queue = ttft_terms(replica, rules, wait)
    s = round_seconds(td, base, c, queue, rules.ttft_limit)
    out[FEASIBLE] = 1.0
    out[GOODPUT] = program.replicas[degrees] * dp * found / program.npus
    out[TTFT], out[TPOT] = base + c * s + queue / s, s + wait * replica.heaviest_prefill
    out[MEMORY] = memory_bytes(mine, batch * pp) + buffers
    out[BATCH], out[ROUND] = batch, s
    return True


@compiled
def evaluate_all(program: Program, vectors: IntArray, order: IntArray, out: FloatArray) -> None:
    """Evaluate (n, decisions) vectors into (n, COLUMNS) raw results, one after the other in ``order``."""
    phases, count = program.times.shape[1], program.stage_rows.shape[1] - 1
    blocks, memory = np.empty((count, phases)), np.empty((count, 3))
    heaviest, total, stage = np.empty(phases), np.empty(phases), np.empty(phases)
    stages = np.empty((program.stage_count.max(), 3))
    out[:] = 0.0
    for index in order:
        if not evaluate_one(program, vectors[index], blocks, heaviest, total, stage, memory, stages, out[index]):
            out[index, OVER_MEMORY : OVER_TPOT + 1] = OVER_ILLEGAL
