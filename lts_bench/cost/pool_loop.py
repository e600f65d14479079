"""The compiled evaluation of disaggregated serving: the prefill pools of all strategies, then the decode pools."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.gathering import BATCH, Strategies, Sums, allocate, leave_x, sort, sum_line
from lts_bench.cost.held import Held
from lts_bench.cost.loop import Answers, fullest
from lts_bench.cost.memory_sums import sum_memory
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.cost.pool_answer import (
    BYTES,
    CAPACITY,
    COLUMNS,
    EVERY,
    EVERY_LATENCY,
    IN_FLIGHT,
    LEGAL,
    LONE,
    LONE_LATENCY,
    Pools,
    fill,
)
from lts_bench.cost.pool_formulas import Decode, Link, Prefill
from lts_bench.cost.program import FloatArray, Index, IntArray, Program
from lts_bench.cost.rows import ILLEGAL_SECONDS, LINE


@compiled
def begin_batch(program: Program, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Sum the memory and the first line of phases of ``many`` strategies from ``first`` on; a mesh has one axis."""
    for n in range(many):
        sums.live[n] = n
    leave_x(program, given, first, many)
    sum_memory(program, given, first, many, sums)
    sum_line(program, 0, given, first, many, sums)


@compiled
def prefill_pools(program: Program, vectors: IntArray) -> FloatArray:
    """(n, COLUMNS) of the prefill pools of (n, decisions) vectors."""
    found = np.zeros((len(vectors), COLUMNS))
    given, sums = sort(program, vectors), allocate(program, min(len(vectors), BATCH))
    stages = len(sums.stage_bytes) // len(sums.buffers)
    for first in range(0, len(vectors), BATCH):
        many = min(BATCH, len(vectors) - first)
        begin_batch(program, given, first, many, sums)
        for n in range(many):
            its, known = given.degrees[first + n], found[given.vector[first + n]]
            lone, latency, more, more_latency = sums.prompts[n]
            known[LONE], known[EVERY] = lone, lone + more
            known[LONE_LATENCY], known[EVERY_LATENCY] = latency, latency + more_latency
            known[CAPACITY], in_flight = sums.capacity[n], IN_FLIGHT * program.pp[its]
            bytes_held = fullest(sums.stage_bytes, n * stages, int(program.stage_count[its]), in_flight)
            known[BYTES] = bytes_held + sums.buffers[n]
            known[LEGAL] = given.inside[first + n] and sums.decode[n, PREFILL] < ILLEGAL_SECONDS
    return found


@compiled
def keep_live(program: Program, line: int, many: Index, sums: Sums, tpot_limit: float) -> Index:
    """Keep the live strategies that may use a larger batch than the line's last; how many they are."""
    last, still = line * LINE + LINE - 1, 0
    for m in range(many):
        n = sums.live[m]
        if program.batches[last] <= sums.capacity[n] and sums.decode[n, last] <= tpot_limit:
            sums.live[still] = n
            still += 1
    return still


@compiled
def evaluate_all(
    held: Held, pair: IntArray, prefills: IntArray, decodes: IntArray, answers: Answers, points: FloatArray
) -> None:
    """Fill the answers (n,) and points (n, 2) of strategies that are legal; others are left alone.

    Args:
        held: the ``Pools``.
        pair: (n,) the first decision.
        prefills: (n, decisions) vectors of the prefill pool.
        decodes: likewise, of the decode pool.
        answers: of ``ANSWER``.
        points: b and the rate.
    """
    pools: Pools = held.arrays
    program, known = pools.decode, prefill_pools(pools.prefill, prefills)
    given, sums = sort(program, decodes), allocate(program, min(len(decodes), BATCH))
    stages = len(sums.stage_bytes) // len(sums.buffers)
    for first in range(0, len(decodes), BATCH):
        many = min(BATCH, len(decodes) - first)
        begin_batch(program, given, first, many, sums)
        alive: Index = keep_live(program, 0, many, sums, pools.rules.tpot_limit)
        for line in range(1, len(program.lines)):
            if alive == 0:
                break
            sum_line(program, line, given, first, alive, sums)
            alive = keep_live(program, line, alive, sums, pools.rules.tpot_limit)
        for n in range(many):
            vector, its = given.vector[first + n], given.degrees[first + n]
            mine = known[vector]
            if mine[LEGAL] == 0 or not given.inside[first + n] or sums.decode[n, PREFILL] >= ILLEGAL_SECONDS:
                continue
            one = pools.pairs[pair[vector], 0]
            replicas, its_pp, dp = pools.prefill.replicas[one], pools.prefill.pp[one], pools.prefill.dp[one]
            prefill = Prefill(replicas, its_pp, dp, mine[LONE], mine[EVERY], mine[LONE_LATENCY], mine[EVERY_LATENCY])
            link = Link(pools.alone[pair[vector]], pools.occupied[pair[vector]])
            pp = program.pp[its]
            decode = Decode(program.replicas[its] * program.dp[its] * pp, pp, sums.capacity[n], pools.osl)
            stage_bytes = sums.stage_bytes[n * stages : n * stages + int(program.stage_count[its])]
            filled = min(int(sums.filled[n]), FIRST_RUNG + len(program.ladder))
            fill(
                answers[vector], points[vector], mine, prefill, link, decode, pools.rules, program.batches, filled,
                sums.decode[n], stage_bytes, sums.buffers[n], pools.osl, pools.npus,
            )  # fmt: skip
