"""Replays worked by hand, and queues whose mean wait is known."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replayed, Replicas, replay
from lts_bench.serving.step_times import constant_times
from lts_bench.serving.trace import PrefixBlocks, Trace
from lts_bench.specs.failure import InputError

DECODE_S, TOKEN_S = 0.010, 0.001
"""A decode step takes 10 ms, a token of a prompt 1 ms."""


def requests(*rows: tuple[float, int, int]) -> Trace:
    """(arrival, prompt, output) of each request."""
    arrival, prompt, output = zip(*rows, strict=True)
    return Trace(np.array(arrival, dtype=float), np.array(prompt), np.array(output))


def run(trace: Trace, *, count: int = 1, pp: int = 1, dp: int = 1, **policy: object) -> Replayed:
    rules = replace(Policy(kv_tokens=100_000, max_sequences=64), **policy)  # type: ignore[arg-type]
    return replay(trace, Replicas(constant_times(DECODE_S, TOKEN_S, rules.rows), rules, count, pp, dp))


def test_one_request() -> None:
    found = run(requests((0, 100, 5)))
    assert found.first_token_s == pytest.approx([0.100])
    assert found.finish_s == pytest.approx([0.140])
    assert found.tpot_s == pytest.approx([0.010])
    assert found.busy_s == pytest.approx(np.array([[0, 0.140]]))
    # 100 tokens of the prompt and 4 of the answer: the last one's KV is never needed.
    assert found.peak_kv_blocks == 7


def test_one_token_has_no_tpot() -> None:
    found = run(requests((0, 100, 1)))
    assert found.finish_s == pytest.approx([0.100])
    assert np.isnan(found.tpot_s).all()


def test_two_that_overlap() -> None:
    # The second arrives in the third decode step, which goes on to 0.130; its prompt is then done first.
    found = run(requests((0, 100, 5), (0.125, 50, 3)))
    assert found.admitted_s == pytest.approx([0, 0.130])
    assert found.first_token_s == pytest.approx([0.100, 0.180])
    # One step together ends the first, one more the second.
    assert found.finish_s == pytest.approx([0.190, 0.200])


def test_a_rest_in_between_is_not_work() -> None:
    found = run(requests((0, 10, 1), (1.0, 10, 1)))
    assert found.busy_s == pytest.approx(np.array([[0, 0.010], [1.0, 1.010]]))


def test_prompts_share_a_step_up_to_its_tokens() -> None:
    found = run(requests((0, 40, 1), (0, 50, 1), (0, 20, 1)), step_tokens=100)
    assert found.first_token_s == pytest.approx([0.090, 0.090, 0.110])
    # A prompt longer than a step has one for itself.
    found = run(requests((0, 10, 1), (0, 300, 1)), step_tokens=100)
    assert found.first_token_s == pytest.approx([0.010, 0.310])


def test_chunks_beside_decoding() -> None:
    # 0.000 prompt 1: 30 tokens. 0.030: its next token beside 31 tokens of prompt 2 (32 a step), 0.010 + 0.031 s, and
    # once more; then the last 8 tokens in 0.018 s.
    found = run(requests((0, 30, 4), (0.01, 70, 2)), chunked=True, step_tokens=32)
    assert found.first_token_s == pytest.approx([0.030, 0.030 + 2 * 0.041 + 0.018])
    assert found.finish_s == pytest.approx([0.130, 0.140])


def test_kv_full_makes_the_second_wait() -> None:
    # 6 blocks: the first takes 4 at once and 5 in the end, the second needs 3.
    found = run(requests((0, 64, 4), (0, 40, 2)), kv_tokens=96)
    assert found.first_token_s == pytest.approx([0.064, 0.094 + 0.040])
    assert found.peak_kv_blocks == 5


def test_kv_runs_out_and_the_last_one_makes_way() -> None:
    # Two prompts of 2 blocks each in 5: after 16 tokens both want a third, and the second makes way. It is prefilled
    # again with its 32 + 17 tokens, 4 blocks, when the first has gone.
    found = run(requests((0, 32, 20), (0, 32, 20)), kv_tokens=80)
    assert found.preempted.tolist() == [0, 1]
    first_end = 0.064 + 19 * DECODE_S
    assert found.finish_s[0] == pytest.approx(first_end)
    # 0.064 gave one token, the prefill gives one, decode steps the others.
    made = 1
    assert found.finish_s[1] == pytest.approx(first_end + (32 + made) * TOKEN_S + (20 - made - 1) * DECODE_S)


def test_reserving_never_makes_way() -> None:
    found = run(requests((0, 32, 20), (0, 32, 20)), kv_tokens=80, reserve=True)
    assert found.preempted.tolist() == [0, 0]
    assert found.first_token_s == pytest.approx([0.032, 0.032 + 19 * DECODE_S + 0.032])


def test_a_request_larger_than_the_cache_is_rejected_once() -> None:
    found = run(requests((0, 900, 12), (0, 700, 12), (0, 100, 900)), kv_tokens=800)
    # 57 blocks of 50; the third one would outgrow them while it decodes.
    assert found.rejected.tolist() == [True, False, True]
    assert np.isnan(found.ttft_s[[0, 2]]).all()


def test_prompts_at_once_wait_for_each_other() -> None:
    found = run(requests((0, 8000, 1), (0, 8000, 1), (0, 8000, 1)), step_tokens=8000)
    assert found.ttft_s == pytest.approx([8.0, 16.0, 24.0])


def test_replicas_take_turns() -> None:
    at_once = requests(*[(0, 100, 1)] * 4)
    assert run(at_once, count=2, max_sequences=1).first_token_s == pytest.approx([0.1, 0.1, 0.2, 0.2])


def test_the_least_loaded_replica() -> None:
    # The first request is long: all others go to the other replica while it lasts.
    rows = [(0.0, 100, 100), *((0.1 * i, 50, 1) for i in range(1, 8))]
    found = run(requests(*rows), count=2, router="least_loaded")
    assert found.ttft_s[1:] == pytest.approx([0.05] * 7)
    assert run(requests(*rows), count=2).ttft_s[2] > 0.05


def test_ranks_in_lockstep_wait_for_each_other() -> None:
    # The second rank's prompt holds up the first rank's sequence: 30 ms between two of its tokens.
    found = run(requests((0, 100, 5), (0.115, 30, 1)), dp=2)
    assert found.finish_s == pytest.approx([0.140 + 0.030, 0.120 + 0.030])


def test_ranks_in_lockstep_decode_before_later_prompts() -> None:
    # Request 3 arrives in the prefill of request 2: a decode step comes first.
    found = run(requests((0, 100, 5), (0.115, 30, 1), (0.130, 30, 1)), dp=2)
    assert found.first_token_s == pytest.approx([0.100, 0.150, 0.160 + 0.030])


def test_coordinated_ranks_gather_prompts() -> None:
    rows = [(0, 100, 20), (0.115, 30, 1), (0.145, 30, 1), (9, 1, 1)]
    found = run(requests(*rows), dp=2, coordinated=True)
    # The prompt of 0.115 waits for that of 0.145, which the decode step ending at 0.150 lets in: both in one step.
    assert found.first_token_s[1:3] == pytest.approx([0.180, 0.180])


def test_microbatches_share_a_pipeline() -> None:
    # Where one stage takes all the time two microbatches take turns: prompts first, then a step each and another one.
    found = run(requests((0, 100, 3), (0, 100, 3)), pp=2)
    assert found.first_token_s == pytest.approx([0.100, 0.200])
    assert found.finish_s == pytest.approx([0.230, 0.240])


def shared(trace: Trace, ids: list[list[int]], block_tokens: int) -> Trace:
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in ids])])
    return replace(trace, blocks=PrefixBlocks(offsets, np.concatenate(ids).astype(np.int64), block_tokens))


def test_a_prompt_that_comes_again() -> None:
    # Four blocks of 512: the last token is always computed, so the last block is, too.
    trace = shared(requests((0, 2048, 1), (10, 2048, 1), (20, 2048, 1)), [[0, 1, 2, 3]] * 3, 512)
    found = run(trace, prefix_reuse=True)
    assert found.reused_tokens.tolist() == [0, 1536, 1536]
    assert found.ttft_s == pytest.approx([2.048, 0.512, 0.512])
    assert run(trace).reused_tokens.tolist() == [0, 0, 0]


def test_without_hash_ids_nothing_is_reused() -> None:
    assert run(requests((0, 2048, 1), (10, 2048, 1)), prefix_reuse=True).reused_tokens.tolist() == [0, 0]


def test_the_prefix_unused_for_longest_is_evicted() -> None:
    # Two blocks of each prompt stay. In five the third one drives out both of the first, in six the end of it.
    rows = [(float(10 * i), 33, 1) for i in range(4)]
    trace = shared(requests(*rows), [[0, 1], [2, 3], [4, 5], [0, 1]], 16)
    assert run(trace, kv_tokens=80, prefix_reuse=True).reused_tokens.tolist() == [0, 0, 0, 0]
    assert run(trace, kv_tokens=96, prefix_reuse=True).reused_tokens.tolist() == [0, 0, 0, 16]
    assert run(trace, kv_tokens=160, prefix_reuse=True).reused_tokens.tolist() == [0, 0, 0, 32]


def test_prefix_blocks_are_whole_kv_blocks() -> None:
    trace = shared(requests((0, 100, 1)), [[0]], 40)
    with pytest.raises(InputError, match="block_tokens: must divide the 40 tokens"):
        run(trace, prefix_reuse=True)


def test_speculation_gains_tokens() -> None:
    # 2.5 tokens a step: 2, 3, 2, 3.
    found = run(requests((0, 100, 11)), accepted_tokens=2.5, drafted_tokens=3)
    assert found.finish_s == pytest.approx([0.100 + 4 * DECODE_S])
    assert found.tpot_s == pytest.approx([0.004])


@pytest.mark.parametrize(
    ("field", "value"),
    [("step_tokens", 0), ("accepted_tokens", 1.5), ("accepted_tokens", 0.5), ("router", "random"), ("block_tokens", 0)],
)
def test_policies_that_cannot_be(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        Policy(1000, **{field: value})  # type: ignore[arg-type]


def waits(prompt: np.ndarray, utilisation: float, seed: int) -> np.ndarray:
    """Waits of single-token requests, one a step, that a Poisson process brings."""
    rng = np.random.default_rng(seed)
    n = len(prompt)
    gaps = rng.exponential(prompt.mean() * TOKEN_S / utilisation, n - 1)
    trace = Trace(np.concatenate([[0.0], np.cumsum(gaps)]), prompt, np.ones(n, dtype=np.int64))
    found = run(trace, max_sequences=1)
    return found.admitted_s - trace.arrival_s


LOADS = [(0.3, 200_000), (0.5, 200_000), (0.7, 400_000), (0.9, 1_500_000)]
"""Utilisation, and requests that tell the mean wait within about 1 %."""


@pytest.mark.parametrize(("utilisation", "n"), LOADS)
def test_mean_wait_of_m_d_1(utilisation: float, n: int) -> None:
    # Pollaczek-Khinchine: ρ · s / (2 (1 − ρ)).
    found = waits(np.full(n, 100), utilisation, seed=0)
    assert found.mean() == pytest.approx(utilisation * 0.1 / (2 * (1 - utilisation)), rel=0.02)


@pytest.mark.parametrize(("utilisation", "n"), LOADS)
def test_mean_wait_of_m_g_1(utilisation: float, n: int) -> None:
    # Pollaczek-Khinchine: λ E[s²] / (2 (1 − ρ)).
    prompt = np.random.default_rng(1).choice([20, 50, 300], n, p=[0.5, 0.3, 0.2])
    mean, square = (prompt * TOKEN_S).mean(), ((prompt * TOKEN_S) ** 2).mean()
    expected = utilisation / mean * square / (2 * (1 - utilisation))
    assert waits(prompt, utilisation, seed=2).mean() == pytest.approx(expected, rel=0.02)


def test_waits_follow_lindley() -> None:
    prompt = np.random.default_rng(3).integers(1, 200, 5000)
    rng = np.random.default_rng(4)
    gaps = rng.exponential(0.11, len(prompt) - 1)
    wait, expected = 0.0, [0.0]
    for service, gap in zip(prompt * TOKEN_S, gaps, strict=False):
        wait = max(0.0, wait + service - gap)
        expected.append(wait)
    trace = Trace(np.concatenate([[0.0], np.cumsum(gaps)]), prompt, np.ones(len(prompt), dtype=np.int64))
    found = run(trace, max_sequences=1)
    assert found.admitted_s - trace.arrival_s == pytest.approx(expected, abs=1e-9)


def test_kv_blocks_are_whole() -> None:
    assert Policy(kv_tokens=100).kv_blocks == 6
    assert Policy(10, accepted_tokens=2.5, drafted_tokens=2).overshoot_tokens == ceil(2.5) - 1
