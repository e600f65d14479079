"""Cells of the search: strategies of the same degrees with a batch size between two rungs of the ladder.

In a cell a strategy is a few sums, its dimensions: times of all stages together and of each that may be the heaviest,
in the phases that matter; bytes of each stage; and times that no TPOT is below.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.program import FloatArray, IntArray, Program, Rows
from lts_bench.cost.steady import Replica, Round, sequences_held, ttft_seconds, ttft_terms
from lts_bench.exact.bounds import Ends
from lts_bench.exact.factors import Terms
from lts_bench.exact.floors import HELD
from lts_bench.exact.kernels import add_rows
from lts_bench.exact.plan import Plan

LONE, EVERY, LOW, HIGH, MIXED_LOW, MIXED_HIGH = range(6)
"""Phases of a cell: prefill of one rank, of all, decode at both rungs, and decode with a prompt mixed in."""
RUNGS = 2
TINY = 1e-30


class Multipliers(NamedTuple):
    """What a second of prefill and a byte of memory cost in seconds of TPOT, as long as they are within the limits.

    Strategies that keep to both limits have no shorter TPOT than the weighted sum less the limits' weights.

    Attributes:
        prefill_limit: seconds.
    """

    prefill: float
    memory: float
    prefill_limit: float

    def weighted(self, basis: FloatArray) -> FloatArray:
        """(…, 2 · paths) weighted sums of (…, 4 · paths + 1)."""
        paths = basis[..., :-1].reshape(*basis.shape[:-1], -1, 2, RUNGS)
        total = paths[..., 0, :] + self.prefill * basis[..., -1, None, None] + self.memory * paths[..., 1, :]
        return total.reshape(*basis.shape[:-1], -1)

    def added(self, constant: FloatArray, room: FloatArray) -> FloatArray:
        """(n, 2 · paths) what a weighted sum lacks to a bound on the TPOT, with (n,) bytes of room."""
        total: FloatArray = self.weighted(constant) - self.prefill * self.prefill_limit - self.memory * room[:, None]
        return total


NONE = Multipliers(0.0, 0.0, 0.0)


class Place(NamedTuple):
    """Batches ``low`` to ``high`` between a rung and the next, under some degrees (an index)."""

    degrees: int
    rung: int
    low: int
    high: int

    @property
    def halves(self) -> tuple[Place, Place]:
        """The smaller and the larger batches."""
        middle = (self.low + self.high) // 2
        return self._replace(high=middle), self._replace(low=middle + 1)


class Cell:
    """Sums of the strategies of one degrees between two rungs.

    A strategy's times are, for all stages together and for each that may be the heaviest, its phases. Where engines mix
    prefills into decode steps, ``EVERY`` is what it takes beyond ``LONE``, and without a pipeline ``MIXED_LOW`` and
    ``MIXED_HIGH`` are what the prompt adds: so that less of any is never worse. Times that decide nothing are 0.

    Dimensions: times (1 + stages of a pipeline, kinds of time), bytes (stages, HELD). Then the basis that weighted sums
    are made of: of each path, all stages and each of a pipeline's, a time that no TPOT is below and bytes, both at both
    rungs (paths, 2, rungs); and the prefill. Then the prefill by all stages of a pipeline but one.

    Attributes:
        low: smallest batch, ``high`` the largest; ``between`` (2, rungs) how near they are to the rungs.
        goodput_of_rate: goodput per NPU and token/s of a data-parallel rank.
        rest: seconds that a prompt takes in all stages but the heaviest, at least.
    """

    def __init__(self, program: Program, place: Place) -> None:
        self.program, self.place, self.degrees = program, place, place.degrees
        self.low, self.high = float(place.low), float(place.high)
        upper = min(place.rung + 1, len(program.ladder) - 1)
        first, last = program.ladder[place.rung], program.ladder[upper]
        shares = (np.array([self.low, self.high]) - first) / max(last - first, 1.0)
        self.between = np.stack((1 - shares, shares), axis=1)
        self.decode = np.array([FIRST_RUNG + place.rung, FIRST_RUNG + upper])
        self.phases = np.array([LONE_PREFILL, PREFILL, *self.decode])
        row = program.wait_row[place.degrees]
        self.waits = self.between @ program.waits[row, self.decode]
        self.shares = self.between @ program.shares[row, self.decode]
        degrees = place.degrees
        self.pp, self.dp = float(program.pp[degrees]), float(program.dp[degrees])
        self.goodput_of_rate = float(program.replicas[degrees]) * self.dp / program.npus
        self.mixes, self.pipelined = len(program.mixed) > 0, self.pp > 1
        begin = int(program.stage_base[degrees])
        self._rows = slice(begin, begin + int(program.stage_count[degrees]))
        self.stages = int(program.stage_count[degrees])
        self.rest = 0.0

    @cached_property
    def kinds(self) -> FloatArray:
        """(kinds, phases) the kinds of time as weights of the phases."""
        kinds = np.eye(MIXED_HIGH + 1 if self.mixes else HIGH + 1)
        kinds[LOW:MIXED_LOW, LOW:MIXED_LOW] = self.between
        if self.mixes:
            kinds[EVERY, LONE] = -1.0
            kinds[MIXED_LOW:, MIXED_LOW:] = self.between
            if not self.pipelined:
                kinds[MIXED_LOW:, LOW:MIXED_LOW] = -self.between
        else:
            kinds[LONE] *= self.shares.min() < 1
            kinds[EVERY] *= self.shares.max() > 0
        if self.high == self.low:
            kinds[HIGH::2] = 0.0
        return kinds

    @property
    def paths(self) -> int:
        """All stages together and each of a pipeline's."""
        return 1 + self.stages * self.pipelined

    @cached_property
    def times(self) -> FloatArray:
        """(dimensions, 1 + stages, phases) weights of the phases of all stages together and of each."""
        kinds, paths, phases = self.kinds, self.paths, len(self.kinds)
        own = np.zeros((paths, phases, 1 + self.stages, phases))
        shortest = np.zeros((paths, 2, RUNGS, 1 + self.stages, phases))
        held, prefill = np.zeros((self.stages * HELD, *own.shape[2:])), np.zeros((1, *own.shape[2:]))
        for path in range(paths):
            own[path, :, path] = kinds
            shortest[path, 0, :, path] += self._decoded * (self.pp if path else 1.0)
            shortest[path, 0, :, self._stage_of(path) if self.pipelined else 0] += self._queued
        prefill[0, 0] = self._prefill
        rests = np.zeros((self.stages * self.pipelined, *own.shape[2:]))
        for stage in range(len(rests)):
            rests[stage, 0], rests[stage, 1 + stage] = self._prefill, -self._prefill
        parts = (own, held, shortest, prefill, rests)
        return np.concatenate([part.reshape(-1, *own.shape[2:]) for part in parts])

    def _stage_of(self, path: int) -> int:
        """Where prompts queue and memory is short on a path: in its stage, or in that with the most blocks."""
        return path or 1 + int(self.program.stage_rows[self._rows].sum(axis=1).argmax())

    @property
    def _prefill(self) -> FloatArray:
        """(phases,) weights of the shortest prefill; none where it is part of the decode steps."""
        share = self.shares.min()
        lone, every = np.eye(len(self.kinds))[:LOW]
        weights: FloatArray = ((1 - share) * lone + share * every) * (not self.mixes)
        return weights

    def _at(self, kind: int) -> list[int]:
        """A kind at the lower and at the upper rung."""
        return [kind, kind + int(self.high > self.low)]

    @property
    def _decoded(self) -> FloatArray:
        """(rungs, phases) weights of the decode steps in the shortest TPOT: mixed steps of a pipeline replace some."""
        replaced = self._fewest_waits / self.pp if self.mixes and self.pipelined else 0.0
        weights: FloatArray = self.kinds[self._at(LOW)] * (1 - replaced)
        return weights

    @property
    def _queued(self) -> FloatArray:
        """(rungs, phases) weights of the shortest time that a round spends on prompts."""
        queued: FloatArray = self.waits[:, None] * self._prefill
        if self.mixes:
            more = 0.0 if self.pipelined else self.shares.min() * self.kinds[EVERY]
            queued = self._fewest_waits * (self.kinds[self._at(MIXED_LOW)] + more)
        return queued

    @property
    def _fewest_waits(self) -> float:
        """For sums that must be linear in the batch size, where each step of a pipeline holds one prompt at most."""
        return min(float(self.waits.min()), self.pp)

    @property
    def times_only(self) -> int:
        """Dimensions that are times."""
        return self.paths * len(self.kinds)

    @cached_property
    def compared(self) -> int:
        """Dimensions by which strategies are told apart."""
        return self.times_only + self.stages * HELD

    @property
    def basis(self) -> slice:
        """Where the basis of weighted sums stands."""
        return slice(self.compared, self.compared + 2 * RUNGS * self.paths + 1)

    @cached_property
    def constant(self) -> FloatArray:
        """(dimensions,) host time of the steps."""
        own = self.program.overhead.ravel()[self.phases]
        if self.mixes:
            own = np.concatenate((own, self.program.mixed_overhead.ravel()[self.decode]))
        steps = np.array([self.pp, *[1.0] * self.stages])
        total: FloatArray = steps @ (self.times @ own).T
        return total

    def table(self, plan: Plan) -> FloatArray:
        """(entries, dimensions) of a plan with its factors filled."""
        program, factors = self.program, plan.factors
        table = np.zeros((plan.entries, len(self.times)))
        counts = np.concatenate((program.totals[program.total_row[self.degrees]][None], program.stage_rows[self._rows]))
        times, sends = np.einsum("gb,dgp->bpd", counts, self.times), self.times[:, 0].T[None]

        def add(terms: Terms, rows: Rows, lines: FloatArray, columns: IntArray, weights: FloatArray) -> None:
            add_rows(table, lines, rows.which, rows.base[self.degrees], *terms, columns, np.ascontiguousarray(weights))

        add(factors.times, program.edges, program.lines, self.phases, times[:, : HIGH + 1])
        add(factors.prompts, program.prompts, program.prefill[None], self.phases[:LOW], times[:, :LOW])
        add(factors.sends, program.sends, program.lines, self.phases, sends[:, : HIGH + 1])
        if self.mixes:
            add(factors.times, program.edges, program.mixed, self.decode, times[:, MIXED_LOW:])
            add(factors.sends, program.sends, program.mixed, self.decode, sends[:, MIXED_LOW:])
        apart, tied = program.stage_rows[self._rows], program.stage_memory[self._rows]
        columns = np.arange(HELD)
        add(factors.memory, program.operators, program.memory[None], columns, self._held(apart))
        add(factors.tied, program.operators, program.memory[None], columns, self._held(tied - apart))
        return table

    def _held(self, counts: FloatArray) -> FloatArray:
        """(blocks, HELD, dimensions) weights of bytes."""
        weights = np.zeros((counts.shape[1], HELD, len(self.times)))
        for column in range(HELD):
            weights[:, column, self.times_only + column : self.compared : HELD] = counts.T
        end = self.basis.stop - 1
        basis = weights[..., self.compared : end].reshape(*weights.shape[:2], self.paths, 2, RUNGS)
        for path in range(self.paths):
            its = counts[self._stage_of(path) - 1]
            for rung, batch in enumerate((self.low, self.high)):
                basis[:, 0, path, 1, rung], basis[:, 1, path, 1, rung] = its, batch * self.pp * its
        weights[..., self.compared : end] = basis.reshape(*weights.shape[:2], -1)
        return weights

    def ends(
        self, sums: FloatArray, buffers: FloatArray, multipliers: Multipliers = NONE, goodput: float = 0.0
    ) -> Ends:
        """Strategies with (n, compared + 2 · paths) sums and (n,) bytes of buffers.

        Args:
            sums: in the order of the dimensions, the basis as ``multipliers`` weight it.
            buffers: beside the stages' bytes.
            multipliers: of the weighted sums.
            goodput: to exceed; what cannot may get any times.
        """
        kinds, n = len(self.kinds), len(sums)
        times, least = sums[:, : self.compared] + self.constant[: self.compared], sums[:, self.compared :]
        stages = times[:, kinds : self.times_only]
        heaviest = stages.reshape(n, self.stages, kinds).max(axis=1) if self.pipelined else times[:, :kinds]
        longest = min(self.program.rules.tpot_limit, self.high * self.pp * self.goodput_of_rate / max(goodput, TINY))
        low, high = (self._round(times[:, :kinds].T, heaviest.T, at, longest) for at in (0, 1))
        replica = Replica(self.capacity(sums, buffers), np.full(n, self.pp), np.full(n, self.dp))
        room = self.program.rules.memory_limit - (buffers + self.program.fixed_bytes)
        least = least + multipliers.added(self.constant[self.basis], room)
        return Ends(replica, low, high, least[:, ::2], least[:, 1::2])

    def capacity(self, sums: FloatArray, buffers: FloatArray) -> FloatArray:
        """(n,) largest batch size that the memory holds."""
        held = sums[:, self.times_only : self.compared].reshape(len(sums), self.stages, HELD)
        room = self.program.rules.memory_limit - (buffers + self.program.fixed_bytes)
        weights, mean_kv, whole_kv = np.moveaxis(held, 2, 0)
        most: FloatArray = sequences_held(weights, mean_kv, whole_kv, self.pp, room[:, None]).min(axis=1)
        return most

    def needed(self, sums: FloatArray) -> FloatArray:
        """(n, 3 · stages) bytes that fill the memory: with the smallest batch, with the largest, with one sequence."""
        held = sums[:, self.times_only : self.compared].reshape(len(sums), self.stages, HELD)
        weights, mean_kv, whole_kv = np.moveaxis(held, 2, 0)
        batches = [weights + self.pp * batch * mean_kv for batch in (self.low, self.high)]
        return np.hstack((*batches, weights + whole_kv))

    def prefill_limit(self, ends: Ends) -> float:
        """The longest prefill that meets the TTFT limit where no time is shorter than those of one strategy."""
        rules = self.program.rules
        limits = []
        for at in (ends.low, ends.high):
            terms = ttft_terms(ends.replica, rules, at)
            s = np.maximum(at.decode, np.sqrt(terms.queue / terms.per_round) - terms.beside)
            limits.append(rules.ttft_limit - (ttft_seconds(terms, s) - at.prefill)[0])
        return float(max(limits))

    def _round(self, whole: FloatArray, heaviest: FloatArray, at: int, longest_tpot: float) -> Round:
        """The round at a rung, of (kinds, n) times.

        In a pipeline a mixed step takes the slot of a decode step. As a longer slot makes prompts cheaper, the bound
        has the longest one.
        """
        share, waits, decode = self.shares[at], self.waits[at], self._at(LOW)[at]
        td = np.maximum(self.pp * heaviest[decode], whole[decode])
        if not self.mixes:
            prefill, service = (each[LONE] + share * (each[EVERY] - each[LONE]) for each in (whole, heaviest))
            return Round(td, np.full_like(td, waits), service, prefill)
        mixed, more = self._at(MIXED_LOW)[at], share * whole[EVERY]
        if not self.pipelined:
            service = whole[mixed] + more
            return Round(td, np.full_like(td, waits), service, service)
        slot = longest_tpot / self.pp
        service, prefill = np.maximum(heaviest[mixed] - slot, 0.0), np.maximum(whole[mixed] + more - slot, 0.0)
        return Round(td, np.full_like(td, waits), service, prefill)
