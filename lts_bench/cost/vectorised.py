"""The evaluation in NumPy, for where nothing can be compiled: the same sums in the same order, so the same bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ILLEGAL_VIOLATION
from lts_bench.cost.best_batch import best_points, taken
from lts_bench.cost.nodes import BUFFER
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.program import FloatArray, IntArray, Program, Rows
from lts_bench.cost.rows import ILLEGAL_SECONDS
from lts_bench.cost.steady import (
    Replica,
    Round,
    excess,
    memory_bytes,
    round_seconds,
    sequences_held,
    tpot_seconds,
    ttft_seconds,
    ttft_terms,
)

CHUNK = 2048
"""Vectors that are evaluated together."""
Answers = NDArray[np.void]
BoolArray = NDArray[np.bool_]


def evaluate_all(program: Program, vectors: IntArray, answers: Answers, points: FloatArray) -> None:
    """Fill the answers of (n, decisions) vectors and, unless ``points`` is empty, (n, 2) their b and s."""
    with np.errstate(all="ignore"):
        for begin in range(0, len(vectors), CHUNK):
            part = slice(begin, begin + CHUNK)
            operating = _conclude(Sums.of(program, vectors[part]), answers[part])
            if len(points):
                points[part] = operating


@dataclass(frozen=True)
class Sums:
    """Step times and memory of n strategies.

    Attributes:
        legal: (n,).
        replica: (n,) capacity, pp, dp.
        stage_bytes: (n, stages, MEMORY) bytes of every distinct stage; ``buffers`` (n,) the largest buffer.
        total: (n, phases) seconds of all stages; ``heaviest`` (n, phases) of the heaviest one.
        rounds: (n, rungs) the rounds of the batch ladder.
    """

    program: Program
    degrees: IntArray
    legal: BoolArray
    replica: Replica
    stage_bytes: FloatArray
    buffers: FloatArray
    total: FloatArray
    heaviest: FloatArray
    rounds: Round

    @classmethod
    def of(cls, program: Program, vectors: IntArray) -> Sums:
        """The sums of (n, decisions) vectors."""
        inside: BoolArray = np.asarray(((vectors >= 0) & (vectors < program.sizes)).all(axis=1))
        codes = np.where(inside[:, None], vectors, 0)
        degrees, codes[:, 0] = codes[:, 0].copy(), 0
        one_axis = program.letters[np.arange(codes.shape[1]), codes]
        codes = np.where(program.two_axes[degrees, None] > 0, codes, one_axis)
        held, buffers = _stage_bytes(program, degrees, codes)
        pp, dp = program.pp[degrees], program.dp[degrees]
        room = program.rules.memory_limit - (buffers + program.fixed_bytes)
        weights, mean_kv, whole_kv, _ = np.moveaxis(held, 2, 0)
        capacity = sequences_held(weights, mean_kv, whole_kv, pp[:, None], room[:, None]).min(axis=1)
        total, heaviest = _all_seconds(program, degrees, codes)
        legal = inside & (total[:, PREFILL] < ILLEGAL_SECONDS)
        rounds = _rounds(program, degrees, total, heaviest)
        return cls(program, degrees, legal, Replica(capacity, pp, dp), held, buffers, total, heaviest, rounds)

    def take(self, rows: IntArray) -> Sums:
        """Those of some strategies."""
        replica, rounds = taken(self.replica, rows), taken(self.rounds, rows)
        held, buffers = self.stage_bytes[rows], self.buffers[rows]
        total, heaviest = self.total[rows], self.heaviest[rows]
        mine = self.degrees[rows], self.legal[rows]
        return Sums(self.program, *mine, replica, held, buffers, total, heaviest, rounds)

    def memory(self, batch: FloatArray) -> FloatArray:
        """(n, k) bytes of the fullest device at (n, k) batch sizes."""
        weights, mean_kv, whole_kv, _ = np.moveaxis(self.stage_bytes[:, None], 3, 0)
        sequences = (batch * self.replica.pp[:, None])[..., None]
        fullest: FloatArray = memory_bytes(weights, mean_kv, whole_kv, sequences).max(axis=2)
        return fullest + (self.buffers + self.program.fixed_bytes)[:, None]


def _gathered(
    rows: Rows, k: int, table: FloatArray, program: Program, degrees: IntArray, codes: IntArray
) -> FloatArray:
    """The rows of one edge, along the second last dimension of the table."""
    row = rows.base[degrees, k] + codes[:, rows.source[k]] * rows.strides[program.two_axes[degrees], k]
    if rows.target[k]:
        row = row + codes[:, rows.target[k]]
    found: FloatArray = table[..., rows.which[row], :]
    return found


def _stage_counts(program: Program, counts: FloatArray, degrees: IntArray) -> FloatArray:
    """(n, stages, blocks) counts of every distinct stage, 0 for stages that there are not."""
    stage = np.arange(program.stage_count.max())
    row = program.stage_base[degrees, None] + stage
    exists = stage < program.stage_count[degrees, None]
    return np.where(exists[..., None], counts[np.minimum(row, len(counts) - 1)], 0.0)


def _stage_bytes(program: Program, degrees: IntArray, codes: IntArray) -> tuple[FloatArray, FloatArray]:
    """((n, stages, MEMORY) bytes of every distinct stage, (n,) the largest buffer)."""
    operators = program.operators
    alike = program.stored[codes[:, -2]] == program.stored[codes[:, -1]]
    apart, tied = (_stage_counts(program, rows, degrees) for rows in (program.stage_rows, program.stage_memory))
    counts = np.where(alike[:, None, None], tied, apart)
    held, buffers = np.zeros((*counts.shape[:2], program.memory.shape[1])), np.zeros(len(codes))
    for block in range(counts.shape[2]):
        own = np.zeros((len(codes), held.shape[2]))
        for k in range(operators.first[block], operators.first[block + 1]):
            rows = _gathered(operators, k, program.memory, program, degrees, codes)
            own += rows
            buffers = np.maximum(buffers, rows[:, BUFFER])
        held += counts[:, :, block, None] * own[:, None]
    return held, buffers


def _seconds(
    program: Program, lines: FloatArray, overheads: FloatArray, degrees: IntArray, codes: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(n, phases) seconds of all stages, and of the heaviest one."""
    counts, totals = _stage_counts(program, program.stage_rows, degrees), program.totals[program.total_row[degrees]]
    pp, overhead = program.pp[degrees], overheads[:, None]
    total = _gathered(program.sends, 0, lines, program, degrees, codes) + pp[:, None] * overhead
    stages = [np.broadcast_to(overhead, total.shape).copy() for _ in range(counts.shape[1])]
    for block in range(counts.shape[2]):
        own = np.zeros_like(total)
        for k in range(program.edges.first[block], program.edges.first[block + 1]):
            own += _gathered(program.edges, k, lines, program, degrees, codes)
        for k in range(program.prompts.first[block], program.prompts.first[block + 1]):
            if lines is program.mixed:
                own += _gathered(program.prompts, k, lines, program, degrees, codes)
            else:
                own[0] += _gathered(program.prompts, k, program.prefill, program, degrees, codes)
        total += totals[:, block, None] * own
        for stage, seconds in enumerate(stages):
            seconds += counts[:, stage, block, None] * own
    heaviest = np.where(pp[:, None] > 1, np.maximum.reduce(stages), total)
    return _in_phases(total), _in_phases(heaviest)


def _all_seconds(program: Program, degrees: IntArray, codes: IntArray) -> tuple[FloatArray, FloatArray]:
    """(n, phases) seconds of all stages, and of the heaviest one, those of mixed steps last."""
    stop = FIRST_RUNG + len(program.ladder)
    alone = _seconds(program, program.lines, program.overhead, degrees, codes)
    if not len(program.mixed):
        return alone[0][:, :stop], alone[1][:, :stop]
    mixed = _seconds(program, program.mixed, program.mixed_overhead, degrees, codes)
    total, heaviest = (
        np.concatenate([one[:, :stop], other[:, FIRST_RUNG:stop]], axis=1)
        for one, other in zip(alone, mixed, strict=True)
    )
    return total, heaviest


def _in_phases(lines: FloatArray) -> FloatArray:
    """(lines, n, LINE) as (n, phases)."""
    return np.moveaxis(lines, 0, 1).reshape(lines.shape[1], -1)


def _rounds(program: Program, degrees: IntArray, total: FloatArray, heaviest: FloatArray) -> Round:
    """(n, rungs) rounds. A prefill costs what one rank's does, and a share of what all ranks' add."""
    rungs = slice(FIRST_RUNG, FIRST_RUNG + len(program.ladder))
    rows = program.wait_row[degrees]
    waits, shares = program.waits[rows, rungs], program.shares[rows, rungs]
    pp = program.pp[degrees, None]
    decode = np.where(pp > 1, np.maximum(pp * heaviest[:, rungs], total[:, rungs]), total[:, rungs])
    alone, whole = heaviest[:, LONE_PREFILL, None], total[:, LONE_PREFILL, None]
    if len(program.mixed):
        slot = decode / pp
        alone, whole = np.maximum(heaviest[:, rungs.stop :] - slot, 0.0), total[:, rungs.stop :] - slot
    service = alone + shares * (heaviest[:, PREFILL] - heaviest[:, LONE_PREFILL])[:, None]
    prefill = whole + shares * (total[:, PREFILL] - total[:, LONE_PREFILL])[:, None]
    return Round(decode, waits, service, prefill)


def _conclude(sums: Sums, answers: Answers) -> FloatArray:
    """Fill the answers; (n, 2) b and s."""
    points = np.zeros((len(answers), 2))
    answers[:] = np.zeros((), answers.dtype)
    answers["legal"] = sums.legal
    answers["violation"][~sums.legal] = ILLEGAL_VIOLATION
    best, batch, at = best_points(sums.replica, sums.program.rules, sums.program.ladder, sums.rounds)
    feasible = sums.legal & (best > 0)
    for fill, rows in ((_feasible, np.flatnonzero(feasible)), (_infeasible, np.flatnonzero(sums.legal & ~feasible))):
        mine, its = answers[rows], sums.take(rows)
        points[rows] = fill(its, mine, best[rows], batch[rows], taken(at, rows))
        answers[rows] = mine
    return points


def _feasible(sums: Sums, answers: Answers, best: FloatArray, batch: FloatArray, at: Round) -> FloatArray:
    """Fill the answers of feasible strategies at their best points; (n, 2) b and s."""
    program, replica = sums.program, sums.replica
    terms = ttft_terms(replica, program.rules, at)
    s = round_seconds(at.decode, terms, program.rules.ttft_limit)
    answers["feasible"] = True
    answers["goodput_per_npu"] = program.replicas[sums.degrees] * replica.dp * best / program.npus
    answers["ttft_s"], answers["tpot_s"] = ttft_seconds(terms, s), tpot_seconds(replica.pp, at, s)
    answers["memory_bytes"] = sums.memory(batch[:, None])[:, 0]
    return np.stack([batch, s], axis=1)


def _infeasible(sums: Sums, answers: Answers, best: FloatArray, batch: FloatArray, at: Round) -> FloatArray:
    """Fill the answers of infeasible strategies at the rung of the least violation; (n, 2) b and s."""
    ladder, rules, rounds, replica = (
        sums.program.ladder,
        sums.program.rules,
        sums.rounds,
        taken(sums.replica, (slice(None), None)),
    )
    ttft = ttft_seconds(ttft_terms(replica, rules, rounds), rounds.decode)
    tpot = tpot_seconds(replica.pp, rounds, rounds.decode)
    memory = sums.memory(np.broadcast_to(ladder, ttft.shape))
    over = excess(memory, rules.memory_limit), excess(ttft, rules.ttft_limit), excess(tpot, rules.tpot_limit)
    beyond = (ladder > replica.capacity) | (rounds.decode > rules.tpot_limit)
    considered = np.cumsum(beyond, axis=1) - beyond == 0
    rung = np.where(considered, over[0] + over[1] + over[2], np.inf).argmin(axis=1)
    row = np.arange(len(rung))
    answers["ttft_s"], answers["tpot_s"], answers["memory_bytes"] = ttft[row, rung], tpot[row, rung], memory[row, rung]
    answers["violation"] = np.stack([each[row, rung] for each in over], axis=1)
    return np.stack([ladder[rung], rounds.decode[row, rung]], axis=1)
