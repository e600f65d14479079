"""The cost model of disaggregated serving: a table for each pool, and the link between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.answer import ANSWER, ILLEGAL_VIOLATION
from lts_bench.cost.collectives import Collective, regimes
from lts_bench.cost.compiled import Kept, compiler
from lts_bench.cost.groups import Group
from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL, Phases
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
from lts_bench.cost.program import FloatArray, IntArray
from lts_bench.cost.vectorised import Sums
from lts_bench.space.degrees_table import DegreesTable
from lts_bench.space.disaggregated import Disaggregated
from lts_bench.space.placement import domain_size
from lts_bench.space.pool_space import PoolSpace
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.formats import DTYPE_BYTES
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload

CHUNK = 1 << 14
"""Strategies that are evaluated together."""


class PoolModel:
    """Scores vectors of a space of two pools; ``few`` is as the evaluator's.

    Attributes:
        parts: cost models of the prefill and of the decode pool.
    """

    def __init__(
        self,
        settings: tuple[Setting, Setting],
        space: PoolSpace,
        stages: Sequence[tuple[int, ...] | None] = (None, None),
        *,
        few: bool = False,
    ) -> None:
        self.space, self.settings, self._few = space, settings, few
        listed = [DegreesTable(part.degrees) for part in space.parts]
        prefill, decode = (CostModel(*each) for each in zip(settings, listed, stages, strict=True))
        self.parts = (prefill, decode)
        alone, occupied = link_seconds(settings[1], listed, space.pairs)
        rules, workload = decode.program.rules, settings[1].phases.workload
        npus = float(settings[1].cluster.devices)
        programs = prefill.program, decode.program
        self.program = Pools(*programs, space.pairs, alone, occupied, rules, float(workload.osl), npus)
        self._kept = Kept(self.program)

    def evaluate(self, vectors: IntArray) -> NDArray[np.void]:
        """(n,) answers of (n, decisions) vectors, illegal ones included."""
        return self.points(vectors)[0]

    def points(self, vectors: IntArray) -> tuple[NDArray[np.void], FloatArray]:
        """(n,) answers, and (n, 2) the batch size b of the decode pool and the rate in requests per second."""
        answers, points = np.zeros(len(vectors), dtype=ANSWER), np.zeros((len(vectors), 2))
        for begin in range(0, len(vectors), CHUNK):
            part = slice(begin, begin + CHUNK)
            self._fill(vectors[part], answers[part], points[part])
        answers["violation"][~answers["legal"]] = ILLEGAL_VIOLATION
        return answers, points

    def formula_parts(self, vector: IntArray) -> tuple[Prefill, Link, Decode, FloatArray]:
        """What the formulas take of a legal vector, and td (rungs,)."""
        prefill, decode = (part.copy() for part in self.space.split(vector[None]))
        sums = Sums.of(self.program.decode, decode)
        known, capacity = _known(Sums.of(self.program.prefill, prefill))[0], float(sums.replica.capacity[0])
        return *_formula_parts(self.program, int(vector[0]), known, capacity), sums.rounds.decode[0]

    def _fill(self, vectors: IntArray, answers: NDArray[np.void], points: FloatArray) -> None:
        pair = np.ascontiguousarray(vectors[:, 0])
        prefills, decodes = (np.ascontiguousarray(each) for each in self.space.split(vectors))
        if self._few or compiler() is None:
            fill_plainly(self.program, pair, prefills, decodes, answers, points)
        else:
            from lts_bench.cost.pool_loop import evaluate_all

            evaluate_all(self._kept.held, pair, prefills, decodes, answers, points)


def pool_settings(model: Model, cluster: Cluster, engine: Engine, workload: Workload) -> tuple[Setting, Setting]:
    """What the pools' prices depend on: prompts with the token that they give, and decode without prompts.

    Raises:
        InputError: the workload has no limit on TTFT, which sets the rate of the prefill pool.
    """
    if workload.slo.ttft_ms is None:
        raise InputError("is needed: it sets the rate of the prefill pool", field="workload.slo.ttft_ms")
    own = pool_engine(engine)
    decode = Setting(model, cluster, own, Phases.of(workload, own))
    return replace(decode, phases=Phases(prompt_workload(workload), np.array([IN_FLIGHT]))), decode


def pool_engine(engine: Engine) -> Engine:
    """The engine of a pool, where prompts and decode steps never meet."""
    return msgspec.structs.replace(engine, mixed_prefill=False, coordinated_admission=False)


def prompt_workload(workload: Workload) -> Workload:
    """What a prefill pool holds of a workload: prompts with the token that they give."""
    return msgspec.structs.replace(workload, osl=1)


def cost_of_pools(
    model: Model, cluster: Cluster, engine: Engine, workload: Workload, strategy: Disaggregated
) -> tuple[PoolModel, IntArray]:
    """The cost model of one strategy's degrees, and the strategy's vector."""
    parts = strategy.prefill, strategy.decode
    space = PoolSpace.paired(model, cluster, [(strategy.prefill.degrees, strategy.decode.degrees)])
    prefill, decode = (
        replace(setting, redundant_experts=part.redundant_experts, padding=part.padding)
        for setting, part in zip(pool_settings(model, cluster, engine, workload), parts, strict=True)
    )
    choices = [
        operator.index(part.sharding[operator.key])
        for part, own in zip(parts, space.parts, strict=True)
        for operator in own.operators
    ]
    cost = PoolModel((prefill, decode), space, [part.stages for part in parts], few=True)
    return cost, np.array([0, *choices])


def prompt_kv_bytes(model: Model, engine: Engine, tokens: int) -> float:
    """Bytes of KV cache and state that a prompt leaves, all layers together."""
    total = 0.0
    for layer in model.layers:
        if layer.mixer is not None:
            window = getattr(layer.mixer, "window", None) if engine.sliding_window == "freed" else None
            held = min(tokens, window or tokens)
            total += held * layer.mixer.kv_elements * DTYPE_BYTES[model.precision.kv] + layer.mixer.state_bytes
    return total


def link_price(cluster: Cluster) -> tuple[float, float]:
    """(latency in seconds, seconds per byte) of a device that sends to another pool.

    It is that of the scale-up domain where there is one only, else of the scale-out network, at its widest.
    """
    domain = domain_size(cluster)
    group = Group(2, 2, 1, domain) if cluster.devices == domain else Group(2, 1, 2, cluster.devices)
    latency, per_byte = regimes(cluster, group)[Collective.SEND, 0].tolist()
    return latency, per_byte


def link_seconds(
    setting: Setting, listed: Sequence[Sequence[Degrees]], pairs: IntArray
) -> tuple[FloatArray, FloatArray]:
    """((pairs,) seconds of a prompt's transfer by itself, (pairs,) of the whole link).

    A transfer uses those of one rank, on the side that has fewer; all together those of the smaller pool.
    Heads and layers that the pools split differently are re-sorted on the way: every byte crosses the link once.
    """
    latency, per_byte = link_price(setting.cluster)
    kv_bytes = prompt_kv_bytes(setting.model, setting.engine, setting.phases.workload.isl)
    of_rank, of_pool = (
        np.min([np.array(sizes)[pairs[:, at]] for at, sizes in enumerate(both)], axis=0)
        for both in (
            [[each.pp * each.tp for each in part] for part in listed],
            [[each.devices for each in part] for part in listed],
        )
    )
    return latency + kv_bytes * per_byte / of_rank, kv_bytes * per_byte / of_pool


def fill_plainly(
    pools: Pools, pair: IntArray, prefills: IntArray, decodes: IntArray, answers: NDArray[np.void], points: FloatArray
) -> None:
    """What the compiled loop does, with sums from NumPy and a strategy at a time."""
    with np.errstate(all="ignore"):
        prompts, sums = Sums.of(pools.prefill, prefills), Sums.of(pools.decode, decodes)
        known = _known(prompts)
        fixed, records = pools.decode.fixed_bytes, answers.view(np.recarray)
        for n in np.flatnonzero(prompts.legal & sums.legal).tolist():
            prefill, link, decode = _formula_parts(pools, int(pair[n]), known[n], float(sums.replica.capacity[n]))
            td = np.concatenate([np.zeros(FIRST_RUNG), sums.rounds.decode[n]])
            fill(
                records[n], points[n], known[n], prefill, link, decode, pools.rules, pools.decode.batches, len(td), td,
                sums.stage_bytes[n], sums.buffers[n] + fixed, pools.osl, pools.npus,
            )  # fmt: skip


def _formula_parts(pools: Pools, pair: int, known: FloatArray, capacity: float) -> tuple[Prefill, Link, Decode]:
    """What the formulas take of a pair of degrees, given (COLUMNS,) of the prefill pool and the most sequences."""
    one, other = pools.pairs[pair]
    prefill, decode = pools.prefill, pools.decode
    lanes = decode.replicas[other] * decode.dp[other] * decode.pp[other]
    return (
        Prefill(prefill.replicas[one], prefill.pp[one], prefill.dp[one], *known[:CAPACITY]),
        Link(pools.alone[pair], pools.occupied[pair]),
        Decode(lanes, decode.pp[other], capacity, pools.osl),
    )


def _known(sums: Sums) -> FloatArray:
    """(n, COLUMNS) of prefill pools."""
    known = np.empty((len(sums.legal), COLUMNS))
    lone, lone_latency = sums.heaviest[:, LONE_PREFILL], sums.total[:, LONE_PREFILL]
    known[:, LONE], known[:, EVERY] = lone, lone + (sums.heaviest[:, PREFILL] - lone)
    known[:, LONE_LATENCY] = lone_latency
    known[:, EVERY_LATENCY] = lone_latency + (sums.total[:, PREFILL] - lone_latency)
    known[:, CAPACITY], known[:, LEGAL] = sums.replica.capacity, sums.legal
    known[:, BYTES] = sums.memory(np.full((len(known), 1), float(IN_FLIGHT)))[:, 0]
    return known
