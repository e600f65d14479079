"""The compiled evaluation of disaggregated serving: the prefill pools of all strategies, then the decode pools."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import compiled, inlined
from lts_bench.cost.gathering import Prompt, Sums, allocate, find_rows, sum_line
from lts_bench.cost.held import Held, borrowed
from lts_bench.cost.loop import Answers
from lts_bench.cost.memory_sums import fullest, sum_memory
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
from lts_bench.cost.sorting import Strategies, sort


@inlined
def begin(program: Program, given: Strategies, n: Index, sums: Sums) -> tuple[float, float, Prompt]:
    """Sum the memory and the first line of phases of a strategy: buffers, capacity and what a prompt takes."""
    its = np.uint64(given.degrees[n])
    buffers, capacity = sum_memory(program, its, given, n, sums)
    find_rows(program, its, given, n, sums)
    return buffers, capacity, sum_line(program, np.uint64(0), its, given, n, sums, Prompt(0.0, 0.0, 0.0, 0.0))


@inlined
def is_legal(given: Strategies, n: Index, sums: Sums) -> bool:
    """Whether a strategy, whose first line is summed, is legal."""
    return bool(given.inside[n]) and sums.decode[PREFILL] < ILLEGAL_SECONDS


@compiled
def prefill_pools(program: Program, given: Strategies, sums: Sums, found: FloatArray) -> None:
    """Fill (n, COLUMNS) of the prefill pools, in the order of the vectors."""
    program, given, sums = borrowed(program), borrowed(given), borrowed(sums)
    for n in range(np.uint64(len(given.degrees))):
        its, known = given.degrees[n], found[given.vector[n]]
        buffers, capacity, prompt = begin(program, given, n, sums)
        known[LONE], known[EVERY] = prompt.lone, prompt.lone + prompt.more
        known[LONE_LATENCY], known[EVERY_LATENCY] = prompt.latency, prompt.latency + prompt.more_latency
        known[CAPACITY] = capacity
        known[BYTES] = fullest(sums.stage_bytes, program.stage_count[its], IN_FLIGHT * program.pp[its]) + buffers
        known[LEGAL] = is_legal(given, n, sums)


@compiled
def decode_pools(
    pools: Pools, given: Strategies, sums: Sums, known: FloatArray, pair: IntArray, answers: Answers, points: FloatArray
) -> None:
    """Fill the answers and points of strategies, whose prefill pools are ``known``."""
    pools, given, sums = borrowed(pools), borrowed(given), borrowed(sums)
    program, limit = pools.decode, pools.rules.tpot_limit
    for n in range(np.uint64(len(given.degrees))):
        vector, its = given.vector[n], np.uint64(given.degrees[n])
        mine, one = known[vector], pools.pairs[pair[vector], 0]
        if mine[LEGAL] == 0:
            continue
        buffers, capacity, prompt = begin(program, given, n, sums)
        if not is_legal(given, n, sums):
            continue
        filled = np.uint64(LINE)
        for line in range(np.uint64(1), np.uint64(len(program.lines))):
            last = filled - np.uint64(1)
            if program.batches[last] > capacity or sums.decode[last] > limit:
                break
            prompt = sum_line(program, line, its, given, n, sums, prompt)
            filled += np.uint64(LINE)
        replicas, its_pp, dp = pools.prefill.replicas[one], pools.prefill.pp[one], pools.prefill.dp[one]
        prefill = Prefill(replicas, its_pp, dp, mine[LONE], mine[EVERY], mine[LONE_LATENCY], mine[EVERY_LATENCY])
        link, pp = Link(pools.alone[pair[vector]], pools.occupied[pair[vector]]), program.pp[its]
        decode = Decode(program.replicas[its] * program.dp[its] * pp, pp, capacity, pools.osl)
        fill(
            answers[vector], points[vector], mine, prefill, link, decode, pools.rules, program.batches,
            min(int(filled), FIRST_RUNG + len(program.ladder)), sums.decode,
            sums.stage_bytes[: int(program.stage_count[its])], buffers, pools.osl, pools.npus,
        )  # fmt: skip


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
    known = np.zeros((len(prefills), COLUMNS))
    prefill_pools(pools.prefill, sort(pools.prefill, prefills), allocate(pools.prefill), known)
    given, sums = sort(pools.decode, decodes), allocate(pools.decode)
    decode_pools(pools, given, sums, known, pair, answers, points)
