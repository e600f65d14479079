"""The compiled evaluation: strategy by strategy, sums as far as the batch size may rise, then the best batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ILLEGAL_VIOLATION
from lts_bench.cost.best_rung import NEARLY, Rounds, best_point, goes_on, round_of
from lts_bench.cost.compiled import compiled, inlined
from lts_bench.cost.gathering import Prompt, Sums, allocate, find_rows, sum_line
from lts_bench.cost.held import Held, borrowed
from lts_bench.cost.memory_sums import fullest, sum_memory
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.cost.program import FloatArray, Index, IntArray, Program
from lts_bench.cost.rows import ILLEGAL_SECONDS, LINE
from lts_bench.cost.sorting import SORTED, Strategies, sort
from lts_bench.cost.steady import (
    NO_LIMIT,
    Replica,
    excess,
    round_seconds,
    tpot_seconds,
    tpot_within,
    ttft_seconds,
    ttft_terms,
)

Answers = NDArray[np.void]


@inlined
def put(
    answer: Any, goodput: float, legal: bool, ttft: float, tpot: float, memory: float, over: tuple[float, float, float]
) -> None:
    """Fill an answer."""
    answer.goodput_per_npu, answer.feasible, answer.legal = goodput, goodput > 0, legal
    answer.ttft_s, answer.tpot_s, answer.memory_bytes = ttft, tpot, memory
    answer.violation[0], answer.violation[1], answer.violation[2] = over


@inlined
def put_least_violation(
    program: Program, replica: Replica, rounds: Rounds, its: Index, sums: Sums, buffers: float, answer: Any
) -> tuple[float, float]:
    """Fill the answer of a strategy that is not feasible at any rung; the b and s of the least violation."""
    rules, batches, pp, least, size, s = program.rules, program.batches, replica.pp, NO_LIMIT, 0.0, 0.0
    for phase in range(np.uint64(FIRST_RUNG), np.uint64(FIRST_RUNG + len(program.ladder))):
        at = round_of(rounds, phase)
        if tpot_within(pp, at, NEARLY * rules.tpot_limit * (1 + least)):
            ttft, tpot = ttft_seconds(ttft_terms(replica, rules, at), at.decode), tpot_seconds(pp, at, at.decode)
            memory = fullest(sums.stage_bytes, program.stage_count[its], batches[phase] * pp) + buffers
            over_memory, over_ttft = excess(memory, rules.memory_limit), excess(ttft, rules.ttft_limit)
            over_tpot = excess(tpot, rules.tpot_limit)
            if over_memory + over_ttft + over_tpot < least:
                least, size, s = over_memory + over_ttft + over_tpot, batches[phase], at.decode
                put(answer, 0.0, True, ttft, tpot, memory, (over_memory, over_ttft, over_tpot))
        if batches[phase] > replica.capacity or at.decode > rules.tpot_limit:
            break
    return size, s


@inlined
def evaluate_one(program: Program, given: Strategies, n: Index, sums: Sums, answer: Any) -> tuple[float, float]:
    """Fill the answer of a strategy; its b and s."""
    its, rules, batches = np.uint64(given.degrees[n]), program.rules, program.batches
    buffers, capacity = sum_memory(program, its, given, n, sums)
    find_rows(program, its, given, n, sums)
    replica = Replica(capacity, program.pp[its], program.dp[its])
    rounds = Rounds(sums.decode, program.waits[program.wait_row[its]], sums.service, sums.prefill)
    prompt, filled = Prompt(0.0, 0.0, 0.0, 0.0), np.uint64(0)
    for line in range(np.uint64(len(program.lines))):
        prompt = sum_line(program, line, its, given, n, sums, prompt)
        filled += np.uint64(LINE)
        if not goes_on(replica, rules, batches, rounds, filled - np.uint64(1)):
            break
    size, s = 0.0, 0.0
    if not given.inside[n] or sums.decode[PREFILL] >= ILLEGAL_SECONDS:
        put(answer, 0.0, False, 0.0, 0.0, 0.0, (ILLEGAL_VIOLATION, ILLEGAL_VIOLATION, ILLEGAL_VIOLATION))
        return size, s
    best = 0.0
    if capacity > 0:
        best, size, at = best_point(replica, rules, batches, rounds, filled)
        if best > 0:
            terms = ttft_terms(replica, rules, at)
            s = round_seconds(at.decode, terms, rules.ttft_limit)
            memory = fullest(sums.stage_bytes, program.stage_count[its], size * replica.pp) + buffers
            goodput = program.replicas[its] * replica.dp * best / program.npus
            ttft, tpot = ttft_seconds(terms, s), tpot_seconds(replica.pp, at, s)
            put(answer, goodput, True, ttft, tpot, memory, (0.0, 0.0, 0.0))
    if best == 0:
        size, s = put_least_violation(program, replica, rounds, its, sums, buffers, answer)
    return size, s


@compiled
def evaluate_sorted(
    program: Program, given: Strategies, sums: Sums, first: int, answers: Answers, points: FloatArray
) -> None:
    """Fill the answers and points of strategies, those of the first vector at ``first``."""
    program, given, sums = borrowed(program), borrowed(given), borrowed(sums)
    for n in range(np.uint64(len(given.degrees))):
        vector = np.uint64(first) + np.uint64(given.vector[n])
        size, s = evaluate_one(program, given, n, sums, answers[vector])
        if len(points) > 0:
            points[vector, 0], points[vector, 1] = size, s


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
    sums = allocate(program)
    for first in range(0, len(vectors), SORTED):
        evaluate_sorted(program, sort(program, vectors[first : first + SORTED]), sums, first, answers, points)
