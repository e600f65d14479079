"""The compiled evaluator against a slow one: table rows are summed, every integer batch is tried."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from test_cost_tables import block_bytes, block_seconds, position
from tiny_settings import WORKLOAD, dense_model, latent_model, moe_model, setting, space_of

from lts_bench.cost import evaluator
from lts_bench.cost.graph import block_counts
from lts_bench.cost.lockstep import lockstep_waits
from lts_bench.cost.model import CostModel
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.sorting import SORTED
from lts_bench.space.strategy import Strategy
from lts_bench.specs.model import Model


@dataclass
class Slow:
    """Step times and memory of one strategy, in plain NumPy."""

    cost: CostModel
    chosen: Strategy

    def __post_init__(self) -> None:
        tables, place = self.cost.tables, self.cost.setting
        self.d, self.phases, self.engine = self.chosen.degrees, place.phases, place.engine
        counts = np.array(block_counts(place.model, tables.blocks, self.chosen.stages))
        overhead = (self.engine.step_overhead_us + self.engine.sequence_overhead_us * self.phases.sequences) * 1e-6
        stages = counts @ block_seconds(tables, self.chosen) + overhead
        send_row = tables.sends.base[tables.degrees.index(self.d)] + position(tables, tables.sends.source, self.chosen)
        through = stages.sum(axis=0) + tables.seconds(tables.sends, send_row)
        self.service, self.prefill = stages.max(axis=0)[:FIRST_RUNG], through[:FIRST_RUNG]
        decode = np.maximum(self.d.pp * stages.max(axis=0), through)[FIRST_RUNG:]
        self.batches = self.phases.batches.astype(float)
        self.rounds = np.stack([decode, *self._prefills()])
        self._memory(counts)

    def _memory(self, counts: np.ndarray) -> None:
        tables, model = self.cost.tables, self.cost.setting.model
        held, names = counts.copy(), [block.name for block in tables.blocks]
        embed, head = ([x.replace("M", "R") for x in self.chosen.sharding[name]] for name in ("embed", "head"))
        if model.tied and embed == head:
            both = (held[:, names.index("embed")] > 0) & (held[:, names.index("head")] > 0)
            held[both, names.index("embed")] = 0
        self.stages = held @ block_bytes(tables, self.chosen)
        index = tables.degrees.index(self.d)
        rows = [tables.memory[o.base[index] + position(tables, o.source, self.chosen)] for o in tables.operators]
        self.buffers = max(row[3] for row in rows) + 2 * (model.vectors + model.extra_parameters)

    def bytes_at(self, b: float) -> float:
        kv = np.maximum(b * self.d.pp * self.stages[:, 1], self.stages[:, 2])
        return float((self.stages[:, 0] + kv).max()) + self.buffers

    def _prefills(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w, s̄, T) at every rung: the time of a prefill is linear in the prompts in it, from one to dp."""
        prompts = self.batches / self.phases.workload.osl
        steps = prompts if self.engine.coordinated_admission else lockstep_waits(prompts, self.d.dp)
        waits = self.d.pp * steps
        times = self.service, self.prefill
        if self.d.dp == 1:
            assert all(each[PREFILL] == each[LONE_PREFILL] for each in times)
            return waits, *(np.full_like(waits, each[PREFILL]) for each in times)
        held = prompts * self.d.dp / steps
        return waits, *(np.interp(held, [1, self.d.dp], [each[LONE_PREFILL], each[PREFILL]]) for each in times)

    def round_at(self, b: float) -> tuple[float, ...]:
        """(td, w, s̄, T), interpolated."""
        return tuple(float(np.interp(b, self.batches, row)) for row in self.rounds)

    def goodput(self) -> tuple[float, int]:
        """(tokens/s per NPU, b) of the best integer batch."""
        place, slo = self.cost.setting, self.phases.workload.slo
        limit = place.engine.memory_fraction * place.cluster.chip.hbm_bytes_usable
        best, at = 0.0, 0
        for b in range(1, int(self.batches[-1]) + 1):
            tpot = self.tpot(b, self.throttle(b, (slo.ttft_ms or 1e12) / 1e3, slo.percentile / 100))
            if self.bytes_at(b) <= limit and tpot <= (slo.tpot_ms or 1e12) / 1e3:
                found = self.d.replicas * self.d.dp * self.d.pp * b / tpot / place.cluster.devices
                if found > best * (1 + 1e-12):
                    best, at = found, b
        return best, at

    def tpot(self, b: float, s: float) -> float:
        """TPOT, in a pipeline w·s̄ and the root of Y = max(s + w·(T − s̄ − h·s)·φ, w·(T − s̄)·φ) with φ = Y/(Y + k)."""
        _, w, s_p, t_p = self.round_at(b)
        if self.d.pp == 1 or np.isinf(s):
            return s + w * s_p
        h = 1 - 1 / self.d.pp
        t_p = max(t_p, s_p + h * s)
        k = (w * t_p) ** 2 / (2 * (s + w * s_p) + w * t_p)
        most = w * (t_p - s_p)
        return w * s_p + max(np.roots([1, k - s - (most - w * h * s), -s * k]).max(), most - k)

    def throttle(self, b: float, ttft: float, q: float) -> float:
        """The smallest s ≥ td with TTFT(s) ≤ ttft, from the roots of a quadratic; infinity for none."""
        td, w, s_p, t_p = self.round_at(b)
        c, room = q / self.d.pp, ttft - t_p
        if self.engine.coordinated_admission and self.d.dp > 1:
            c += (self.d.dp - 1) / (2 * self.d.dp * w)
            room -= (self.d.dp - 1) * s_p / (2 * self.d.dp)
        queue, beside = -np.log(1 - q) * w * s_p**2 / 2, 0.0
        if self.d.pp > 1:
            queue, beside = -np.log(1 - q) * w * t_p**2 / 2, w * t_p / 2
        roots = np.roots([c, c * beside - room, queue - beside * room])
        if room + c * beside <= 0 or np.iscomplex(roots).any() or td > roots.real.max():
            return float("inf")
        return max(td, float(roots.real.min()))


CASES = [
    (dense_model(8), "h100x16", WORKLOAD, {}),
    (dense_model(8, tied=True), "h100x8", "isl=4096,osl=64,ttft_ms=200,tpot_ms=15", {}),
    (moe_model(), "h100x16", "isl=2048,osl=128,ttft_ms=150,tpot_ms=30", {}),
    (moe_model(), "h100x16", "isl=2048,osl=128,ttft_ms=150,tpot_ms=30", {"coordinated_admission": True}),
    (latent_model(), "h100x8", "isl=8192,osl=32,ttft_ms=100,percentile=99", {}),
    (latent_model(), "mi300x-8", "isl=512,osl=512", {"kv_reservation": "full"}),
    (dense_model(6), "tpu-v5p-4x4x4", "isl=2048,osl=32,ttft_ms=60,tpot_ms=12", {"overlap": 0.5}),
]


@pytest.mark.parametrize(("model", "cluster", "workload", "changes"), CASES, ids=lambda value: str(value)[:20])
def test_against_the_slow_evaluation(model: Model, cluster: str, workload: str, changes: dict[str, object]) -> None:
    # Little memory, so that it binds for some: a chip of 100 MB.
    place = setting(model, cluster, workload, max_batch=256, memory_fraction=1.2e-3, **changes)
    space, cost = space_of(place)
    vectors = space.sample(40, np.random.default_rng(3))
    raw = cost.raw(vectors)
    for vector, row in zip(vectors, raw, strict=True):
        slow = Slow(cost, space.decode(vector))
        expected, batch = slow.goodput()
        assert row[evaluator.LEGAL] == 1
        assert row[evaluator.GOODPUT] <= expected * (1 + 1e-9)
        assert row[evaluator.GOODPUT] == pytest.approx(expected, rel=2e-3 if changes else 1e-9), (row, batch)
        assert (row[evaluator.FEASIBLE] > 0) == (expected > 0)
        if expected:
            b, slo = row[evaluator.BATCH], place.phases.workload.slo
            assert row[evaluator.MEMORY] == pytest.approx(slow.bytes_at(b))
            s = slow.throttle(b, (slo.ttft_ms or 1e12) / 1e3, slo.percentile / 100)
            assert row[evaluator.ROUND_SECONDS] == pytest.approx(s)
            assert row[evaluator.TPOT] == pytest.approx(slow.tpot(b, s))
    assert raw[:, evaluator.FEASIBLE].sum() > 0


def test_violations_are_those_of_the_least_sum() -> None:
    place = setting(moe_model(), "h100x16", "isl=4096,osl=32,ttft_ms=2,tpot_ms=1.1", max_batch=64, memory_fraction=2e-4)
    space, cost = space_of(place)
    vectors = space.sample(60, np.random.default_rng(5))
    limit = 2e-4 * place.cluster.chip.hbm_bytes_usable
    for vector, row in zip(vectors, cost.raw(vectors), strict=True):
        assert not row[evaluator.FEASIBLE]
        slow = Slow(cost, space.decode(vector))
        best = np.inf
        for b in slow.batches:
            td, w, s_p, t_p = slow.round_at(b)
            before, beside = (s_p, 0.0) if slow.d.pp == 1 else (t_p, w * t_p / 2)
            ttft = t_p + 0.9 / slow.d.pp * td + -np.log(0.1) * w * before**2 / 2 / (td + beside)
            over = [slow.bytes_at(b) / limit, ttft / 2e-3, slow.tpot(b, td) / 1.1e-3]
            best = min(best, sum(max(0.0, x - 1) for x in over))
        found = row[evaluator.OVER_MEMORY : evaluator.OVER_TPOT + 1]
        assert found.sum() == pytest.approx(best, rel=1e-9)
        assert (found >= 0).all() and found.any()


def test_more_vectors_than_are_sorted_together() -> None:
    space, cost = space_of(setting(dense_model(8), "h100x8"))
    vectors = space.sample(100, np.random.default_rng(0))
    times = SORTED // len(vectors) + 1
    assert (cost.evaluate(np.tile(vectors, (times, 1))) == np.tile(cost.evaluate(vectors), times)).all()
