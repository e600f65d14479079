"""Request-level replay of disaggregated serving: prefill pool, link, decode pool."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.pool_model import link_price, pool_engine, prompt_kv_bytes, prompt_workload
from lts_bench.serving.link import transfer_ends
from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replayed, Replicas, simulated
from lts_bench.serving.state import Simulation
from lts_bench.serving.step_tables import Place, Served
from lts_bench.serving.trace import Trace
from lts_bench.space.disaggregated import Disaggregated

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ANY_TOKENS = 2**62
"""A step takes all prompts that come with their KV cache."""


@dataclass(frozen=True, eq=False)
class ServedPools(Place):
    """A strategy of two pools that serves a model under an engine."""

    strategy: Disaggregated

    @property
    def parts(self) -> tuple[Served, Served]:
        """Either pool by itself: prompts with the token that they give, and decode."""
        engine, place = pool_engine(self.engine), (self.model, self.cluster)
        prompts = Served(*place, engine, prompt_workload(self.workload), self.strategy.prefill)
        return prompts, Served(*place, engine, self.workload, self.strategy.decode)

    def link(self) -> Link:
        """The link between the pools."""
        latency, per_byte = link_price(self.cluster)
        tokens = self.workload.isl
        each = prompt_kv_bytes(self.model, self.engine, tokens) * per_byte / tokens
        prefill, decode = self.strategy.prefill.degrees, self.strategy.decode.degrees
        return Link(latency, each / (prefill.pp * prefill.tp), each / (decode.pp * decode.tp))


@dataclass(frozen=True)
class Link:
    """The link between two pools.

    Attributes:
        latency_s: of a transfer.
        sending_s: seconds for each token of a prompt that a rank sends, ``receiving_s`` that one receives.
    """

    latency_s: float
    sending_s: float
    receiving_s: float


@dataclass(frozen=True)
class Pools:
    """Two pools of replicas and the link between them."""

    prefill: Replicas
    decode: Replicas
    link: Link


def pool_policies(prefill: Policy, decode: Policy) -> tuple[Policy, Policy]:
    """The policies of engines in either pool: a prompt a rank and step; sequences that come with their KV cache."""
    alone = replace(prefill, chunked=False, coordinated=False, step_tokens=1, accepted_tokens=1.0, drafted_tokens=0)
    given = replace(
        decode, chunked=False, coordinated=False, step_tokens=ANY_TOKENS, router="round_robin", prefix_reuse=False,
        prefilled=True,
    )  # fmt: skip
    return alone, given


def replay_pools(trace: Trace, pools: Pools) -> Replayed:
    """Replay a trace on two pools; the same arguments give the same bits.

    A prompt whose KV cache is sent takes no more room in the prefill pool. Decode ranks are chosen in turn, in the
    order in which prompts are done; a sequence that makes way keeps its KV cache elsewhere.

    Raises:
        InputError: blocks of shared prefixes are not whole KV blocks.
    """
    prompts = simulated(replace(trace, output_tokens=np.ones(len(trace), dtype=np.int64)), pools.prefill)
    done = np.flatnonzero(~np.isnan(prompts.requests["finish_s"]))
    times = {name: np.full(len(trace), np.nan) for name in ("first_token_s", "finish_s")}
    preempted, periods, peak = np.zeros(len(trace), dtype=np.int64), _periods(prompts), 0
    if len(done):
        done = done[np.argsort(prompts.requests["finish_s"][done], kind="stable")]
        arrived = _transferred(trace, prompts, done, pools)
        order = np.argsort(arrived, kind="stable")
        done, arrived = done[order], arrived[order]
        later = Trace(arrived - arrived[0], trace.prompt_tokens[done], trace.output_tokens[done])
        answers = simulated(later, pools.decode)
        for name, values in times.items():
            values[done] = answers.requests[name] + arrived[0]
        preempted[done] = answers.requests["preempted"]
        periods = np.concatenate([periods, _periods(answers) + arrived[0]])
        peak = pools.decode.policy.kv_blocks - int(answers.ranks["least"].min())
    served = ~np.isnan(times["finish_s"])
    return Replayed(
        trace,
        np.where(served, prompts.requests["admitted_s"], np.nan),
        **times,
        reused_tokens=prompts.requests["reused"].copy(),
        preempted=preempted,
        busy_s=periods,
        peak_kv_blocks=peak,
    )


def _transferred(trace: Trace, prompts: Simulation, done: IntArray, pools: Pools) -> FloatArray:
    """(n,) when the KV caches of prompts, in the order in which they were done, are in the decode pool."""
    replicas, dp = pools.decode.count, pools.decode.dp
    turn, tokens = np.arange(len(done)), trace.prompt_tokens[done].astype(np.float64)
    receiver = turn % replicas * dp + turn // replicas % dp
    ends = transfer_ends(
        prompts.requests["finish_s"][done].copy(),
        prompts.requests["rank"][done].copy(),
        receiver,
        pools.link.sending_s * tokens,
        pools.link.receiving_s * tokens,
    )
    return ends + pools.link.latency_s


def _periods(sim: Simulation) -> FloatArray:
    return sim.periods[1 : 1 + int(sim.periods[0, 0])].copy()
