"""Search for the best strategy of two pools, which ends with a proof.

Pools share nothing but the devices, the link and the limit on TTFT. Every pair of degrees has a bound on its rate from
the least times of either pool. The pair of the highest bound is solved: all strategies of both pools that may exceed
the best rate so far, but for dominated ones, and the highest rate at which the shortest wait and the shortest decode
round meet the limit together. So on down, until no bound is above the best strategy found.
"""

from __future__ import annotations

import numpy as np

from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.pool_answer import IN_FLIGHT, RATE
from lts_bench.cost.pool_formulas import Link, transfer_seconds
from lts_bench.cost.pool_model import PoolModel
from lts_bench.cost.program import IntArray
from lts_bench.exact.floors import Floors, most_sequences
from lts_bench.exact.part import Part
from lts_bench.exact.pool_fronts import (
    DecodeFront,
    PrefillFront,
    Target,
    decode_cell,
    decode_front,
    fastest,
    lanes_of,
    prefill_cell,
    prefill_front,
)
from lts_bench.exact.pool_rates import Prompts, Steps, at_rate, highest_rate, waits
from lts_bench.exact.search import SAME
from lts_bench.space.pool_space import PoolSpace


class PoolSearch:
    """What is known so far of the optimum.

    Attributes:
        rate: requests per second of the best strategy found, ``vector``, None for none.
        bound: rate that no strategy exceeds, once the search has run.
    """

    def __init__(self, cost: PoolModel, space: PoolSpace) -> None:
        self.cost, self.space, self.pools = cost, space, cost.program
        self.parts = tuple(Part(*each) for each in zip(cost.parts, space.parts, strict=True))
        self.rate, self.bound = 0.0, 0.0
        self.vector: IntArray | None = None
        self._prompts, self._steps = self._least_prompts(), self._least_steps()
        self._prefill: dict[int, PrefillFront] = {}
        self._decode: dict[int, DecodeFront] = {}

    @property
    def goodput_of_rate(self) -> float:
        """Goodput per NPU and request per second."""
        return self.pools.osl / self.pools.npus

    def offer(self, vectors: IntArray) -> None:
        """Evaluate (n, decisions) vectors and keep the best."""
        rates = self.cost.points(vectors)[1][:, RATE]
        at = int(rates.argmax())
        if rates[at] > self.rate:
            self.rate, self.vector = float(rates[at]), vectors[at]

    def run(self) -> None:
        """Search until the best strategy is proven to be the best."""
        bounds = np.array([self._least_bound(pair) for pair in range(len(self.space.pairs))])
        for pair in np.argsort(-bounds, kind="stable").tolist():
            if bounds[pair] <= self.rate * (1 + SAME):
                self.bound = max(self.bound, float(bounds[pair]))
                break
            self.bound = max(self.bound, self._solve(pair))
        self.bound = max(self.bound, self.rate)

    def _least_bound(self, pair: int) -> float:
        """A rate that no strategy of a pair of degrees exceeds."""
        one, other = self.space.pairs[pair].tolist()
        return float(highest_rate(self._prompts[one], self._link(pair), self._steps[other], self.pools.rules))

    def _solve(self, pair: int) -> float:
        """The highest rate of a pair of degrees, as a bound; its strategy is offered.

        Bounds without a strategy are those of pools that are too many to be searched.
        """
        one, other = self.space.pairs[pair].tolist()
        if one not in self._prefill or other not in self._decode:
            self._offer_fastest(pair)
        prefill, decode = self._prefill_front(one), self._decode_front(other)
        link, rules = self._link(pair), self.pools.rules
        rate = float(highest_rate(prefill.prompts, link, decode.steps, rules))
        if rate > self.rate and len(prefill.vectors) and len(decode.vectors):
            soonest = int(waits(prefill.prompts, rate, rules.quantile, rules.queue_factor).argmin())
            shortest = int(decode.steps.which[at_rate(decode.steps, rate)])
            self.offer(self._joined(pair, prefill.vectors[[soonest]], decode.vectors[[shortest]]))
        return rate

    def _offer_fastest(self, pair: int) -> None:
        """Evaluate strategies that minimise one time each, near the batch size of the pair's bound."""
        one, other = self.space.pairs[pair].tolist()
        steps, ladder = self._steps[other], self.pools.decode.ladder
        batch = steps.which[at_rate(steps, self._least_bound(pair))] + 1
        rung = min(int(np.searchsorted(ladder, batch, side="right")) - 1, max(len(ladder) - 2, 0))
        cells = prefill_cell(self.parts[0], one), decode_cell(self.parts[1], other, rung)
        prefills, decodes = (fastest(*each) for each in zip(self.parts, cells, strict=True))
        self.offer(self._joined(pair, prefills, decodes))

    def _link(self, pair: int) -> Link:
        return Link(float(self.pools.alone[pair]), float(self.pools.occupied[pair]))

    def _joined(self, pair: int, prefills: IntArray, decodes: IntArray) -> IntArray:
        """Every two of (n, decisions) and (m, decisions) vectors of the parts."""
        both = np.repeat(prefills[:, 1:], len(decodes), axis=0), np.tile(decodes[:, 1:], (len(prefills), 1))
        return np.hstack([np.full((len(both[0]), 1), pair), *both])

    def _prefill_front(self, one: int) -> PrefillFront:
        """Prefill pools that may be part of something better, whatever the decode pool."""
        if one not in self._prefill:
            left = [
                self.pools.rules.ttft_limit - self._transfer(pair) - self._decoding(self.space.pairs[pair, 1])
                for pair in np.flatnonzero(self.space.pairs[:, 0] == one).tolist()
            ]
            self._prefill[one] = prefill_front(self.parts[0], one, Target(self.rate, max(left)))
        return self._prefill[one]

    def _decode_front(self, other: int) -> DecodeFront:
        """Decode pools that may be part of something better, whatever the prefill pool."""
        if other not in self._decode:
            rules, pp = self.pools.rules, float(self.pools.decode.pp[other])
            left = [
                rules.ttft_limit - self._transfer(pair) - self._prefilling(self.space.pairs[pair, 0])
                for pair in np.flatnonzero(self.space.pairs[:, 1] == other).tolist()
            ]
            target = Target(self.rate, min(rules.tpot_limit, max(left) / (1 + rules.quantile / pp)))
            self._decode[other] = decode_front(self.parts[1], other, target, self._floor[other])
        return self._decode[other]

    def _transfer(self, pair: int) -> float:
        """Seconds of a transfer at the best rate so far."""
        link = self._link(pair)
        if self.rate * link.occupied >= 1:
            return float(np.inf)
        return float(transfer_seconds(link, self.rate, self.pools.rules.queue_factor))

    def _prefilling(self, one: int) -> float:
        """No wait and prefill is shorter at the best rate so far."""
        rules, prompts = self.pools.rules, self._prompts[one]
        return float(waits(prompts, self.rate, rules.quantile, rules.queue_factor).min(initial=np.inf))

    def _decoding(self, other: int) -> float:
        """No first token comes sooner from the decode pool at the best rate so far."""
        steps = self._steps[other]
        last = at_rate(steps, self.rate)
        return float((1 + self.pools.rules.quantile / steps.pp) * steps.least[last]) if last >= 0 else float(np.inf)

    def _least_prompts(self) -> list[Prompts]:
        """No prompts are shorter under the degrees of the prefill pool."""
        part, program = self.parts[0], self.pools.prefill
        floors, own = Floors.of(part.cost, part.streams), program.overhead.ravel()[:FIRST_RUNG]
        phases, pp = slice(0, FIRST_RUNG), program.pp[:, None]
        whole = floors.seconds[:, phases] + floors.sends[:, phases] + pp * own
        heaviest = np.where(pp > 1, floors.seconds[:, phases] / pp + own, whole)
        times = [each[:, at] for each in (heaviest, whole) for at in (LONE_PREFILL, PREFILL)]
        seconds = np.stack(times, axis=1)
        seconds[most_sequences(program, floors) < IN_FLIGHT] = np.inf
        return [
            Prompts(row[None], *map(float, size))
            for row, *size in zip(seconds, program.replicas, program.pp, program.dp, strict=True)
        ]

    def _least_steps(self) -> list[Steps]:
        """No decode rounds are shorter under the degrees of the decode pool; each belongs to b − 1."""
        part, program = self.parts[1], self.pools.decode
        floors, phases = Floors.of(part.cost, part.streams), slice(FIRST_RUNG, FIRST_RUNG + len(program.ladder))
        own = program.overhead.ravel()[phases]
        self._floor = floors.seconds[:, phases] + floors.sends[:, phases] + program.pp[:, None] * own
        most, batches, found = most_sequences(program, floors), np.arange(1.0, program.ladder[-1] + 1), []
        for degrees, floor in enumerate(self._floor):
            td = np.interp(batches, program.ladder, floor)
            fits = (batches <= most[degrees]) & (td <= self.pools.rules.tpot_limit)
            rate = np.where(fits, lanes_of(part, degrees) * batches / td, 0.0)
            found.append(Steps.of(rate, np.where(fits, td, np.inf), float(program.pp[degrees])))
        return found
