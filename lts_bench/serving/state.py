"""What a replay keeps in arrays: requests, queues, KV caches, the sequences of every microbatch, pipelines.

A replica has ``dp`` ranks and ``pp`` units, one a microbatch in flight. Rank r of replica k is k · dp + r, unit m is
k · pp + m, and the sequences of unit u on rank r are those of lane u · dp + r. A unit's clock counts the tokens that
each of its sequences has gained since the beginning: what a sequence has is told by the clock at which it joined.

Records, not an array a field: a call hands on a reference to every array of ``Simulation``, at run time and in the
compiler. Functions that are called often take the records that they need.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.policy import Policy
from lts_bench.serving.step_times import StepTimes
from lts_bench.serving.trace import Trace

Record: TypeAlias = Any
"""One entry of an array of records."""
NONE = -1
IDLE, READY, FLYING = range(3)
"""States of a unit: nothing to do, waits for the pipeline, in it."""
RUNNING, FILLING = range(2)
"""Sequences of a lane: those that decode, and those whose prompts are not done."""
USERS, OLDER, NEWER = range(3)
"""Of a block of a shared prefix: sequences that use it (``NONE`` where it is not in the cache), and its neighbours by
last use in the ring of blocks without users, which the last entry closes."""

REQUEST = np.dtype(
    [
        ("arrival_s", np.float64),
        ("admitted_s", np.float64),  # NaN before, as the following two
        ("first_token_s", np.float64),
        ("finish_s", np.float64),
        ("prompt", np.int64),
        ("output", np.int64),
        ("generated", np.int64),  # tokens of the answer when the sequence last joined or left those that decode
        ("prefilled", np.int64),  # tokens of prompt + generated whose KV is computed
        ("joined", np.int64),  # the unit's clock at that time
        ("first_id", np.int64),  # its prefix blocks are ids[first_id : first_id + shareable]
        ("shareable", np.int64),
        ("held", np.int64),  # prefix blocks that it shares
        ("reused", np.int64),  # tokens of the prompt that were in the cache at its first admission
        ("preempted", np.int64),  # how often it made way
        ("behind", np.int64),  # the request behind it in a queue
        ("rank", np.int64),  # where it is served, once it has arrived
    ]
)
RANK = np.dtype(
    [
        ("head", np.int64),  # first and last request of the queue
        ("tail", np.int64),
        ("waiting", np.int64),  # its length
        ("serving", np.int64),  # sequences in the lanes
        ("free", np.int64),  # KV blocks that hold nothing
        ("unused", np.int64),  # prefix blocks that nobody uses
        ("least", np.int64),  # fewest KV blocks that were free or unused
    ]
)
LANE = np.dtype(
    [
        ("rows", np.int64),  # sequences that decode
        ("filled", np.int64),  # sequences whose prompts are not done
        ("context", np.int64),  # tokens that the next decode step attends to
        ("growth", np.int64),  # KV blocks that it takes
        ("fresh", np.int64),  # sequences, the last rows, that wait for their first token
    ]
)
UNIT = np.dtype(
    [
        ("time", np.float64),  # when it became ready, or when its step ends
        ("decoded_s", np.float64),  # when its last decode step ended
        ("state", np.int64),
        ("clock", np.int64),  # tokens that its sequences have gained
        ("steps", np.int64),  # decode steps
        ("next_end", np.int64),  # no sequence ends before this clock
        ("decodes", np.int64),  # 1 where its step decodes
    ]
)
PIPELINE = np.dtype(
    [
        ("free_s", np.float64),  # when the heaviest stage is free
        ("last_end_s", np.float64),  # when its last step ends
        ("flying", np.int64),  # units in it
        ("period", np.int64),  # current row of Simulation.periods
    ]
)


class Rules(NamedTuple):
    """A policy and a deployment for the compiled loop; fields as in ``Policy``.

    Attributes:
        rows_each: rows of a sequence in a decode step.
        overshoot: tokens that the last decode step may add beyond an answer.
        reuse_tokens: tokens of a block of a shared prefix, 0 without reuse; ``reuse_blocks`` its KV blocks.
    """

    replicas: int
    pp: int
    dp: int
    chunked: bool
    step_tokens: int
    max_sequences: int
    block_tokens: int
    kv_blocks: int
    reserve: bool
    coordinated: bool
    least_loaded: bool
    accepted_tokens: float
    rows_each: int
    overshoot: int
    reuse_tokens: int
    reuse_blocks: int
    prefilled: bool


class Simulation(NamedTuple):
    """All of a replay.

    Attributes:
        requests: (n,) ``REQUEST``.
        ids: blocks of prompts' beginnings, equal where the blocks and all before them are.
        ranks: (replicas · dp,) ``RANK``.
        prefixes: (3, ranks, ids + 1) ``USERS``, ``OLDER`` and ``NEWER`` of prefix blocks.
        lanes: (units · dp,) ``LANE``.
        sequences: (2, lanes, most sequences) ``RUNNING`` and ``FILLING``, each in the order of admission.
        phases: (lanes, block_tokens) sequences that take a new KV block at a clock, modulo block_tokens.
        units: (replicas · pp,) ``UNIT``.
        pipelines: (replicas,) ``PIPELINE``.
        periods: (n + 1, 2) begin and end of the times in which a replica worked without a break; row 0 counts them.
    """

    rules: Rules
    times: StepTimes
    requests: NDArray[np.void]
    ids: NDArray[np.int64]
    ranks: NDArray[np.void]
    prefixes: NDArray[np.int32]
    lanes: NDArray[np.void]
    sequences: NDArray[np.int32]
    phases: NDArray[np.int64]
    units: NDArray[np.void]
    pipelines: NDArray[np.void]
    periods: NDArray[np.float64]


def rules_of(policy: Policy, replicas: int, pp: int, dp: int, reuse_tokens: int) -> Rules:
    """A policy on a deployment; ``reuse_tokens`` are those of a block of shared prefixes, 0 without reuse."""
    return Rules(
        replicas,
        pp,
        dp,
        policy.chunked,
        policy.step_tokens,
        policy.max_sequences,
        policy.block_tokens,
        policy.kv_blocks,
        policy.reserve,
        policy.coordinated and dp > 1,
        policy.router == "least_loaded",
        policy.accepted_tokens,
        1 + policy.drafted_tokens,
        policy.overshoot_tokens,
        reuse_tokens,
        reuse_tokens // policy.block_tokens,
        policy.prefilled,
    )


def at_rest(rules: Rules, times: StepTimes, trace: Trace) -> Simulation:
    """Everything before the first arrival."""
    units, ranks = rules.replicas * rules.pp, rules.replicas * rules.dp
    lanes, slots = units * rules.dp, min(rules.max_sequences, len(trace))
    ids = trace.blocks.ids if trace.blocks and rules.reuse_tokens else np.zeros(0, dtype=np.int64)
    pipelines = np.zeros(rules.replicas, dtype=PIPELINE)
    return Simulation(
        rules,
        times,
        _requests(trace, rules.reuse_tokens),
        ids,
        _ranks(ranks, rules.kv_blocks),
        _prefixes(ranks, int(ids.max(initial=NONE)) + 1),
        np.zeros(lanes, dtype=LANE),
        np.empty((2, lanes, slots), dtype=np.int32),
        np.zeros((lanes, rules.block_tokens), dtype=np.int64),
        np.zeros(units, dtype=UNIT),
        pipelines,
        np.zeros((len(trace) + 1, 2)),
    )


def _requests(trace: Trace, reuse_tokens: int) -> NDArray[np.void]:
    """Blocks that a prompt does not fill are not shared."""
    requests = np.zeros(len(trace), dtype=REQUEST)
    requests["arrival_s"] = trace.arrival_s
    requests["prompt"], requests["output"] = trace.prompt_tokens, trace.output_tokens
    for name in ("admitted_s", "first_token_s", "finish_s"):
        requests[name] = np.nan
    if trace.blocks and reuse_tokens:
        requests["first_id"] = trace.blocks.offsets[:-1]
        requests["shareable"] = np.minimum(np.diff(trace.blocks.offsets), trace.prompt_tokens // reuse_tokens)
    return requests


def _ranks(ranks: int, kv_blocks: int) -> NDArray[np.void]:
    state = np.zeros(ranks, dtype=RANK)
    state["head"] = state["tail"] = NONE
    state["free"] = state["least"] = kv_blocks
    return state


def _prefixes(ranks: int, ids: int) -> NDArray[np.int32]:
    prefixes = np.full((3, ranks, ids + 1), ids, dtype=np.int32)
    prefixes[USERS] = NONE
    return prefixes
