"""The compiled loop: a strategy's rows are gathered and summed, then the best batch size is found."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.program import FloatArray, IntArray, Program
from lts_bench.cost.steady import Pipeline, best_batch, least_violation, point, rate

GOODPUT, FEASIBLE, LEGAL, TTFT, TPOT, MEMORY, OVER_MEMORY, OVER_TTFT, OVER_TPOT, BATCH, ROUND = range(11)
"""Columns of an evaluation's raw result; BATCH and ROUND are b and the round time s in seconds."""
COLUMNS = 11
ILLEGAL_SECONDS = 1e14
OVER_ILLEGAL = 1e3


@compiled
def gather_times(program: Program, vector: IntArray, blocks: FloatArray) -> bool:
    """Sum every block's rows into (blocks, phases); False where a choice is out of range or illegal."""
    for column in range(len(program.sizes)):
        if vector[column] < 0 or vector[column] >= program.sizes[column]:
            return False
    blocks[:] = 0.0
    degrees = vector[0]
    mode = program.two_axes[degrees]
    for edge in range(len(program.edge_block)):
        source, target = program.edge_source[edge], program.edge_target[edge]
        i = program.letters[source, mode, vector[source]]
        j = program.letters[target, mode, vector[target]]
        row = program.times[program.edge_base[degrees, edge] + i * program.edge_targets[degrees, edge] + j]
        if row[0] >= ILLEGAL_SECONDS:
            return False
        into = blocks[program.edge_block[edge]]
        for phase in range(len(row)):
            into[phase] += row[phase]
    return True


@compiled
def combine_stages(
    program: Program, vector: IntArray, blocks: FloatArray, heaviest: FloatArray, total: FloatArray
) -> None:
    """(phases,) times of the heaviest stage, and of all stages with their boundaries."""
    degrees, decision = vector[0], program.send_decision
    send = program.letters[decision, program.two_axes[degrees], vector[decision]]
    total[:] = program.times[program.send_base[degrees] + send]
    heaviest[:] = 0.0
    stage = np.empty(len(total))
    first = program.stage_base[degrees]
    for row in range(first, first + program.stage_count[degrees]):
        stage[:] = program.overhead
        for block in range(blocks.shape[0]):
            count = program.stage_rows[row, 1 + block]
            if count > 0:
                for phase in range(len(stage)):
                    stage[phase] += count * blocks[block, phase]
        many = program.stage_rows[row, 0]
        for phase in range(len(stage)):
            heaviest[phase] = max(heaviest[phase], stage[phase])
            total[phase] += many * stage[phase]


@compiled
def gather_memory(program: Program, vector: IntArray, blocks: FloatArray, stages: FloatArray) -> float:
    """Fill (distinct stages, 3) bytes of weights and of one sequence's KV; the largest buffer."""
    blocks[:] = 0.0
    buffers = 0.0
    degrees = vector[0]
    mode = program.two_axes[degrees]
    for operator in range(len(program.operator_block)):
        decision = program.operator_decision[operator]
        row = program.memory[
            program.operator_base[degrees, operator] + program.letters[decision, mode, vector[decision]]
        ]
        into = blocks[program.operator_block[operator]]
        for column in range(3):
            into[column] += row[column]
        buffers = max(buffers, row[3])
    for stage in range(stages.shape[0]):
        for column in range(3):
            held = 0.0
            for block in range(blocks.shape[0]):
                held += program.stage_memory[program.stage_base[degrees] + stage, 1 + block] * blocks[block, column]
            stages[stage, column] = held
    return buffers + program.fixed_bytes


@compiled
def evaluate_legal(
    program: Program, vector: IntArray, blocks: FloatArray, heaviest: FloatArray, total: FloatArray,
    memory: FloatArray, stages: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    """Evaluate a legal vector whose times are in ``blocks``; the other arrays are scratch."""
    degrees = vector[0]
    combine_stages(program, vector, blocks, heaviest, total)
    mine = stages[: program.stage_count[degrees]]
    buffers = gather_memory(program, vector, memory, mine)
    pp, dp = program.pp[degrees], program.dp[degrees]
    prefill, heaviest_prefill = total[0], heaviest[0]
    for phase in range(len(total)):
        total[phase] = max(pp * heaviest[phase], total[phase])
    waits = program.waits[program.wait_row[degrees]]
    line = Pipeline(program.batches, total[1:], waits, heaviest_prefill, prefill, mine, buffers, pp, dp)
    found, batch, rung = best_batch(line, program.rules)
    s = -1.0
    if found > 0.0:
        out[FEASIBLE] = 1.0
        out[GOODPUT] = program.replicas[degrees] * dp * found / program.npus
        s = rate(line, program.rules, batch, rung)[1]
    else:
        rung, out[OVER_MEMORY], out[OVER_TTFT], out[OVER_TPOT] = least_violation(line, program.rules)
        batch = program.batches[rung]
    out[TTFT], out[TPOT], out[MEMORY] = point(line, program.rules, batch, rung, s)
    out[BATCH] = batch
    out[ROUND] = s


@compiled
def evaluate_all(program: Program, vectors: IntArray, out: FloatArray) -> None:
    """Evaluate (n, decisions) vectors into (n, COLUMNS) raw results."""
    phases, count = program.times.shape[1], program.stage_rows.shape[1] - 1
    blocks, memory = np.empty((count, phases)), np.empty((count, 3))
    heaviest, total = np.empty(phases), np.empty(phases)
    stages = np.empty((program.stage_count.max(), 3))
    out[:] = 0.0
    for index in range(vectors.shape[0]):
        if gather_times(program, vectors[index], blocks):
            out[index, LEGAL] = 1.0
            evaluate_legal(program, vectors[index], blocks, heaviest, total, memory, stages, out[index])
        else:
            out[index, OVER_MEMORY : OVER_TPOT + 1] = OVER_ILLEGAL
