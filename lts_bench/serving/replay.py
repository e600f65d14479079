"""Request-level replay of a trace on replicas with continuous batching."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.event_loop import run
from lts_bench.serving.policy import Policy
from lts_bench.serving.state import Simulation, at_rest, rules_of
from lts_bench.serving.step_times import StepTimes
from lts_bench.serving.trace import Trace
from lts_bench.specs.failure import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Replicas:
    """Replicas of one strategy, alike, behind a router.

    Attributes:
        times: step times of a replica.
        pp: microbatches in flight; dp: ranks of a replica, which go in lockstep.
    """

    times: StepTimes
    policy: Policy
    count: int = 1
    pp: int = 1
    dp: int = 1


@dataclass(frozen=True)
class Replayed:
    """What became of the requests of a trace.

    Attributes:
        admitted_s: (n,) when a request first left the queue; NaN where it was rejected, as are the other times.
        first_token_s: (n,) when it had its first token.
        finish_s: (n,) when it had its last token.
        reused_tokens: (n,) tokens of its prompt that were in the cache.
        preempted: (n,) how often it had to make way.
        busy_s: (periods, 2) begin and end of the times without a break in which a replica worked.
        peak_kv_blocks: most blocks in use on a rank.
    """

    trace: Trace
    admitted_s: FloatArray
    first_token_s: FloatArray
    finish_s: FloatArray
    reused_tokens: IntArray
    preempted: IntArray
    busy_s: FloatArray
    peak_kv_blocks: int

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """(n,) requests longer than the KV cache of a rank."""
        return np.isnan(self.finish_s)

    @property
    def ttft_s(self) -> FloatArray:
        """(n,) time to first token; NaN where rejected."""
        return self.first_token_s - self.trace.arrival_s

    @property
    def tpot_s(self) -> FloatArray:
        """(n,) time per output token after the first; NaN where rejected or where there is one token."""
        later = self.trace.output_tokens - 1
        return np.where(later > 0, (self.finish_s - self.first_token_s) / np.maximum(later, 1), np.nan)

    @property
    def latency_s(self) -> FloatArray:
        """(n,) from arrival to the last token; NaN where rejected."""
        return self.finish_s - self.trace.arrival_s


def replay(trace: Trace, replicas: Replicas) -> Replayed:
    """Replay a trace; the same arguments give the same bits.

    Raises:
        InputError: blocks of shared prefixes are not whole KV blocks.
    """
    sim = simulated(trace, replicas)
    found, periods = sim.requests, int(sim.periods[0, 0])
    return Replayed(
        trace,
        found["admitted_s"].copy(),
        found["first_token_s"].copy(),
        found["finish_s"].copy(),
        found["reused"].copy(),
        found["preempted"].copy(),
        sim.periods[1 : 1 + periods].copy(),
        replicas.policy.kv_blocks - int(sim.ranks["least"].min()),
    )


def simulated(trace: Trace, replicas: Replicas) -> Simulation:
    """All of a replay at its end.

    Raises:
        InputError: blocks of shared prefixes are not whole KV blocks.
    """
    policy, shared = replicas.policy, trace.blocks if replicas.policy.prefix_reuse else None
    if shared and shared.block_tokens % policy.block_tokens:
        rule = f"must divide the {shared.block_tokens} tokens of the trace's prefix blocks"
        raise InputError(rule, field="block_tokens", value=policy.block_tokens)
    rules = rules_of(policy, replicas.count, replicas.pp, replicas.dp, shared.block_tokens if shared else 0)
    sim = at_rest(rules, replicas.times, trace)
    run(sim)
    return sim
