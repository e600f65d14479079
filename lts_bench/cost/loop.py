"""The compiled evaluation: sums line by line, as far as the batch size may rise, then the best batch size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ILLEGAL_VIOLATION
from lts_bench.cost.best_rung import best_point, round_of
from lts_bench.cost.compiled import compiled, inlined
from lts_bench.cost.gathering import BATCH, Strategies, Sums, allocate, leave_x, sort, sum_line
from lts_bench.cost.held import Held
from lts_bench.cost.memory_sums import sum_memory
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.cost.program import FloatArray, Index, IntArray, Program
from lts_bench.cost.rows import ILLEGAL_SECONDS, LINE
from lts_bench.cost.steady import (
    Replica,
    excess,
    memory_bytes,
    rate,
    round_seconds,
    tpot_seconds,
    ttft_seconds,
    ttft_terms,
)

SORTED = 1 << 18
"""Vectors that are put in the order of the tables together."""
Answers = NDArray[np.void]


@compiled
def keep_live(program: Program, line: int, given: Strategies, first: int, many: Index, sums: Sums) -> Index:
    """Keep the live strategies that may use a larger batch than the line's last; how many they are.

    TPOT rises with the batch: one that exceeds its limit with the prefills is done if it is feasible at all, else the
    search for its least violation goes on until it exceeds the limit decoding alone. A prompt mixed into a larger step
    may cost less.
    """
    degrees, live, capacity = given.degrees, sums.live, sums.capacity
    decode, service, prefill, waits = sums.decode, sums.service, sums.prefill, program.waits
    batches, rows, pp, dp, rules = program.batches, program.wait_row, program.pp, program.dp, program.rules
    mixed = len(program.mixed) > 0
    last, still = np.uint64(line * LINE + LINE - 1), np.uint64(0)
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        its = degrees[np.uint64(first) + n]
        if batches[last] > capacity[n] or decode[n, last] > rules.tpot_limit:
            continue
        at = round_of(decode, waits, service, prefill, rows[its], n, last)
        if not mixed and tpot_seconds(pp[its], at, at.decode) > rules.tpot_limit:
            at = round_of(decode, waits, service, prefill, rows[its], n, np.uint64(FIRST_RUNG))
            if rate(Replica(capacity[n], pp[its], dp[its]), rules, batches[FIRST_RUNG], at) > 0:
                continue
        live[still] = n
        still += np.uint64(1)
    return np.int64(still)


@inlined
def fullest(held: FloatArray, begin: Index, count: Index, sequences: float) -> float:
    """Bytes of the fullest stage, buffers aside."""
    most = 0.0
    for row in range(begin, begin + count):
        most = max(most, memory_bytes(held[row, 0], held[row, 1], held[row, 2], sequences))
    return most


@compiled
def conclude(
    program: Program, given: Strategies, first: int, many: int, sums: Sums, answers: Answers, points: FloatArray
) -> None:
    """Fill the answers of ``many`` strategies from ``first`` on."""
    degrees, vectors, inside, rules = given.degrees, given.vector, given.inside, program.rules
    batches, waits, rows = program.batches, program.waits, program.wait_row
    pps, dps, replicas, count = program.pp, program.dp, program.replicas, program.stage_count
    held, buffers, capacity = sums.stage_bytes, sums.buffers, sums.capacity
    decode, service, prefill, phases = sums.decode, sums.service, sums.prefill, sums.filled
    stages = np.uint64(len(held) // len(buffers))
    for n in range(np.uint64(many)):
        its, vector = degrees[np.uint64(first) + n], vectors[np.uint64(first) + n]
        pp, dp, row, filled = pps[its], dps[its], np.uint64(rows[its]), np.uint64(phases[n])
        legal = inside[np.uint64(first) + n] and decode[n, PREFILL] < ILLEGAL_SECONDS
        goodput, ttft, tpot, memory, size, s = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        over_memory = over_ttft = over_tpot = 0.0 if legal else ILLEGAL_VIOLATION
        if legal and capacity[n] > 0:
            replica = Replica(capacity[n], pp, dp)
            best, size, at = best_point(replica, rules, batches, decode, waits, service, prefill, row, n, filled)
            if best > 0:
                goodput = replicas[its] * dp * best / program.npus
                terms = ttft_terms(replica, rules, at)
                s = round_seconds(at.decode, terms, rules.ttft_limit)
                ttft, tpot = ttft_seconds(terms, s), tpot_seconds(pp, at, s)
                memory = fullest(held, n * stages, np.uint64(count[its]), size * pp) + buffers[n]
        if legal and goodput == 0:
            least = np.inf
            for phase in range(np.uint64(FIRST_RUNG), np.uint64(FIRST_RUNG + len(program.ladder))):
                at = round_of(decode, waits, service, prefill, row, n, phase)
                terms = ttft_terms(Replica(capacity[n], pp, dp), rules, at)
                its_ttft = ttft_seconds(terms, at.decode)
                its_memory = fullest(held, n * stages, np.uint64(count[its]), batches[phase] * pp) + buffers[n]
                memory_excess, ttft_excess = excess(its_memory, rules.memory_limit), excess(its_ttft, rules.ttft_limit)
                if memory_excess + ttft_excess < least:
                    its_tpot = tpot_seconds(pp, at, at.decode)
                    tpot_excess = excess(its_tpot, rules.tpot_limit)
                    if memory_excess + ttft_excess + tpot_excess < least:
                        least = memory_excess + ttft_excess + tpot_excess
                        over_memory, over_ttft, over_tpot = memory_excess, ttft_excess, tpot_excess
                        ttft, tpot, memory, size, s = its_ttft, its_tpot, its_memory, batches[phase], at.decode
                if batches[phase] > capacity[n] or at.decode > rules.tpot_limit:
                    break
        answer = answers[vector]
        answer.goodput_per_npu, answer.feasible, answer.legal = goodput, goodput > 0, legal
        answer.ttft_s, answer.tpot_s, answer.memory_bytes = ttft, tpot, memory
        answer.violation[0], answer.violation[1], answer.violation[2] = over_memory, over_ttft, over_tpot
        if len(points):
            points[vector, 0], points[vector, 1] = size, s


@compiled
def evaluate_batch(
    program: Program, given: Strategies, first: int, many: int, sums: Sums, answers: Answers, points: FloatArray
) -> None:
    """Evaluate ``many`` strategies from ``first`` on, all on meshes of as many axes."""
    live = sums.live
    for n in range(many):
        live[n] = n
    if program.two_axes[given.degrees[first]] == 0:
        leave_x(program, given, first, many)
    sum_memory(program, given, first, many, sums)
    alive = many
    for line in range(len(program.lines)):
        sum_line(program, line, given, first, alive, sums)
        alive = keep_live(program, line, given, first, alive, sums)
        if alive == 0:
            break
    conclude(program, given, first, many, sums, answers, points)


@compiled
def evaluate_all(held: Held, vectors: IntArray, answers: Answers, points: FloatArray) -> None:
    """Fill the answers of (n, decisions) vectors and, unless ``points`` is empty, (n, 2) their b and s.

    Args:
        held: a ``Program``.
        vectors: (n, decisions).
        answers: (n,) of ``ANSWER``.
        points: (n, 2) or (0, 2).
    """
    program: Program = held.arrays
    sums = allocate(program, min(len(vectors), BATCH))
    for begin in range(0, len(vectors), SORTED):
        given = sort(program, vectors[begin : begin + SORTED])
        degrees, two_axes, n = given.degrees, program.two_axes, len(given.degrees)
        first: Index = np.int64(0)  # a literal would have everything compiled twice
        while first < n:
            end = first + 1
            while end < min(first + BATCH, n) and two_axes[degrees[end]] == two_axes[degrees[first]]:
                end += 1
            evaluate_batch(program, given, first, end - first, sums, answers[begin:], points[begin:])
            first = end
