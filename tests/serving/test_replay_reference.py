"""The compiled replay against one that walks through every step in plain Python, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_replay import plain_replay

from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replicas, replay
from lts_bench.serving.step_times import StepTimes
from lts_bench.serving.trace import PrefixBlocks, Trace


def uneven_times(rows: int, pp: int = 1) -> StepTimes:
    """Times whose tables bend and differ by stages, where there are several, and by how many ranks prefill."""
    stages = np.array([1.0, 2.3 if pp > 1 else 1.0])[:, None, None]
    tokens = np.array([1.0, 8.0, 40.0, 200.0])
    decode = stages * (0.0101 + 0.0007 * np.arange(rows + 1)[:, None] + 0.00003 * (tokens + 1) ** 1.1)
    linear = np.maximum(0.0093, 0.0011 * tokens)
    prefill = np.stack([linear, 1.4 * linear, 0.000013 * tokens, 0.0017 - 0.000001 * tokens])
    return StepTimes(np.array([tokens, tokens + 1]), decode, stages * prefill)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 25))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.003, 0.02, 0.5]), min_size=n, max_size=n))
    prompt = np.array(draw(st.lists(st.integers(1, 120), min_size=n, max_size=n)))
    output = np.array(draw(st.lists(st.integers(1, 40), min_size=n, max_size=n)))
    gaps[0] = 0.0
    # Prompts with the same first block have the same beginning: one of three documents.
    documents = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    counts = -(-prompt // 16)
    ids = np.concatenate([8 * d + np.arange(count) for d, count in zip(documents, counts, strict=True)])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Trace(np.cumsum(gaps), prompt, output, PrefixBlocks(offsets, ids.astype(np.int64), 16))


@st.composite
def served(draw: st.DrawFn) -> Replicas:
    drafted = draw(st.sampled_from([0, 0, 2]))
    policy = Policy(
        kv_tokens=draw(st.sampled_from([100, 200, 400, 10_000])),
        chunked=draw(st.booleans()),
        step_tokens=draw(st.sampled_from([16, 64, 200])),
        max_sequences=draw(st.sampled_from([1, 3, 8])),
        block_tokens=draw(st.sampled_from([1, 4, 16])),
        reserve=draw(st.booleans()),
        coordinated=draw(st.booleans()),
        router=draw(st.sampled_from(["round_robin", "least_loaded"])),
        accepted_tokens=draw(st.floats(1.0, 1.0 + drafted)),
        drafted_tokens=drafted,
        prefix_reuse=draw(st.booleans()),
    )
    count, pp, dp = (draw(st.sampled_from(options)) for options in ([1, 2], [1, 2, 3], [1, 1, 3]))
    return Replicas(uneven_times(policy.rows, pp), policy, count, pp, dp)


@settings(max_examples=150, deadline=None)
@given(traces(), served())
def test_equals_the_plain_one(trace: Trace, replicas: Replicas) -> None:
    found = replay(trace, replicas)
    requests, pipelines = plain_replay(trace, replicas)
    for name, times in (("admitted", found.admitted_s), ("first", found.first_token_s), ("finish", found.finish_s)):
        expected = [np.nan if getattr(one, name) is None else getattr(one, name) for one in requests]
        np.testing.assert_allclose(times, expected, rtol=1e-12)
    assert found.reused_tokens.tolist() == [one.reused for one in requests]
    assert found.preempted.tolist() == [one.preempted for one in requests]
    least = min(rank.cache.least for pipeline in pipelines for rank in pipeline.ranks)
    assert found.peak_kv_blocks == replicas.policy.kv_blocks - least


@settings(max_examples=150, deadline=None)
@given(traces(), served())
def test_what_is_conserved(trace: Trace, replicas: Replicas) -> None:
    found = replay(trace, replicas)
    policy, done = replicas.policy, ~found.rejected
    whole = trace.prompt_tokens + trace.output_tokens - 1 + policy.overshoot_tokens
    # Every request ends once: it is answered, or rejected because the cache can never hold it.
    assert (found.rejected == (-(-whole // policy.block_tokens) > policy.kv_blocks)).all()
    assert 0 <= found.peak_kv_blocks <= policy.kv_blocks
    # Time never goes back.
    assert (found.admitted_s >= trace.arrival_s)[done].all()
    assert (found.first_token_s > found.admitted_s)[done].all()
    assert ((found.finish_s > found.first_token_s) == (trace.output_tokens > 1))[done].all()
    assert (found.reused_tokens < trace.prompt_tokens).all()
    # A token takes at least the fastest decode step.
    steps = (trace.output_tokens - 1) / policy.accepted_tokens
    fastest = replicas.times.decode[1, 1, 0]
    assert (found.finish_s - found.first_token_s >= np.floor(steps) * fastest * (1 - 1e-9))[done].all()
    # Work without a break, in order.
    begin, end = found.busy_s.T
    assert (begin < end).all()
    if replicas.count == 1:
        assert (end[:-1] < begin[1:]).all()
    if done.any():
        assert end.max() == found.finish_s[done].max()


@settings(max_examples=30, deadline=None)
@given(traces(), served())
def test_same_arguments_same_bits(trace: Trace, replicas: Replicas) -> None:
    first, second = replay(trace, replicas), replay(trace, replicas)
    for name in ("admitted_s", "first_token_s", "finish_s", "busy_s", "preempted"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_a_long_trace_equals_the_plain_one() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    trace = Trace(
        np.concatenate([[0.0], np.cumsum(rng.exponential(0.08, n - 1))]),
        rng.integers(1, 150, n),
        rng.integers(1, 60, n),
    )
    policy = Policy(kv_tokens=900, max_sequences=16)
    replicas = Replicas(uneven_times(policy.rows), policy)
    found = replay(trace, replicas)
    assert found.preempted.sum() > 100
    requests, _ = plain_replay(trace, replicas)
    assert found.finish_s == pytest.approx([one.finish for one in requests], rel=1e-12)
