"""Replays of two pools: by hand, what must be conserved, and against the closed form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lts_bench.cli import app
from lts_bench.serving.expected import expected
from lts_bench.serving.generate import generate, poisson
from lts_bench.serving.policy import Policy
from lts_bench.serving.pool_replay import Link, Pools, ServedPools, pool_policies, replay_pools
from lts_bench.serving.replay import Replicas
from lts_bench.serving.replay_document import Options, replayed, replicas_of
from lts_bench.serving.step_times import constant_times
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_lengths import Fixed, Independent
from lts_bench.space.disaggregated import check_disaggregated
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.workload import Slo, Workload

DECODE_S, TOKEN_S = 0.010, 0.001
"""A decode step takes 10 ms, a token of a prompt 1 ms."""
NO_TIME = Link(0.0, 0.0, 0.0)
TWO = {"prefill": {"replicas": 1, "pp": 2, "tp": 2}, "decode": {"replicas": 2, "tp": 2}}


def pools(
    link: Link = NO_TIME, *, prefill: tuple[int, int, int] = (1, 1, 1), decode: tuple[int, int, int] = (1, 1, 1),
    kv_tokens: int = 100_000,
) -> Pools:  # fmt: skip
    policies = pool_policies(*[Policy(kv_tokens=kv_tokens, max_sequences=64)] * 2)
    parts = [
        Replicas(constant_times(DECODE_S, TOKEN_S, policy.rows), policy, *size)
        for policy, size in zip(policies, (prefill, decode), strict=True)
    ]
    return Pools(*parts, link)


def requests(*rows: tuple[float, int, int]) -> Trace:
    arrival, prompt, output = zip(*rows, strict=True)
    return Trace(np.array(arrival, dtype=float), np.array(prompt), np.array(output))


def test_one_request() -> None:
    # 100 ms of prefill, 20 ms and 2 ms of transfer, then a step for each token.
    found = replay_pools(requests((0, 100, 5)), pools(Link(0.002, 0.0002, 0.0001)))
    assert found.first_token_s == pytest.approx([0.132])
    assert found.finish_s == pytest.approx([0.172])
    assert found.tpot_s == pytest.approx([0.010])
    assert found.busy_s == pytest.approx(np.array([[0, 0.1], [0.122, 0.172]]))


def test_prompts_one_at_a_time_do_not_disturb_decoding() -> None:
    found = replay_pools(requests((0, 100, 20), (0, 45, 20)), pools())
    # The second prompt is done at 0.145, in a step that ends at 0.150.
    assert found.first_token_s == pytest.approx([0.110, 0.160])
    assert found.tpot_s == pytest.approx([0.010, 0.010])


def test_a_sequence_waits_for_the_step_on_its_way() -> None:
    found = replay_pools(requests((0, 100, 20), (0, 4, 20)), pools())
    # 0.104 is in the middle of the step from 0.100 to 0.110.
    assert found.first_token_s == pytest.approx([0.110, 0.120])


def test_answers_of_one_token() -> None:
    found = replay_pools(requests((0, 100, 1)), pools())
    assert found.first_token_s == pytest.approx([0.110])
    assert found.finish_s == pytest.approx([0.110])


def test_replicas_and_ranks_take_turns() -> None:
    found = replay_pools(requests(*[(0, 100, 2)] * 4), pools(prefill=(2, 1, 2), decode=(2, 1, 1)))
    assert found.first_token_s == pytest.approx([0.110] * 4)


def test_what_no_cache_holds_is_rejected() -> None:
    found = replay_pools(requests((0, 100, 5), (0, 900, 5), (0, 100, 900)), pools(kv_tokens=800))
    assert found.rejected.tolist() == [False, True, True]
    assert np.isnan(found.ttft_s[1:]).all()
    nothing = replay_pools(requests((0, 900, 5)), pools(kv_tokens=800))
    assert nothing.rejected.all() and nothing.peak_kv_blocks == 0


def test_a_sequence_that_makes_way_keeps_its_tokens() -> None:
    # 5 blocks: the first prompt has 3 with its first token, so that the second has no third one until the first ends.
    found = replay_pools(requests((0, 32, 20), (0, 32, 20)), pools(kv_tokens=80))
    assert found.preempted.sum() > 0
    assert found.first_token_s == pytest.approx([0.042, 0.032 + 21 * DECODE_S])
    assert (found.finish_s >= found.first_token_s + 19 * DECODE_S - 1e-9).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_conserved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 80
    arrival = np.concatenate([[0.0], np.sort(rng.uniform(0, 4, n - 1))])
    trace = Trace(arrival, rng.integers(1, 200, n), rng.integers(1, 40, n))
    size = (int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    link = Link(0.001, 2e-5, 1e-5)
    found = replay_pools(trace, pools(link, prefill=size, decode=size[::-1], kv_tokens=int(rng.choice([400, 100_000]))))
    done = ~found.rejected
    prompt, output = trace.prompt_tokens[done], trace.output_tokens[done]
    fastest = prompt * TOKEN_S + link.latency_s + prompt * link.sending_s + DECODE_S
    assert (found.ttft_s[done] >= fastest - 1e-9).all()
    assert (found.finish_s[done] - found.first_token_s[done] >= (output - 1) * DECODE_S - 1e-9).all()
    assert (found.admitted_s[done] >= trace.arrival_s[done]).all()
    again = replay_pools(trace, pools(link, prefill=size, decode=size[::-1], kv_tokens=100_000))
    assert not again.rejected.any()


def served(isl: int = 1024, osl: int = 128, strategy: object = TWO) -> ServedPools:
    model, cluster = load_model("llama-3.1-8b"), load_cluster("h100x8")
    checked = check_disaggregated(strategy, model, cluster)
    workload = Workload(isl, osl, Slo(ttft_ms=300, tpot_ms=20))
    return ServedPools(model, cluster, load_engine("generic"), workload, checked.strategy)


@pytest.mark.parametrize("rate", [30.0, 60.0])
def test_the_closed_form_agrees(rate: float) -> None:
    one = served()
    trace = generate(poisson(rate), Independent(Fixed(1024), Fixed(128)), 3000, 0)
    found = replayed(trace, replicas_of(one, trace, Options()))
    told = expected(one, rate)
    middle = slice(1000, 2000)
    assert told.tpot_s == pytest.approx(found.tpot_s[middle].mean(), rel=0.05)
    assert told.ttft_s == pytest.approx(found.ttft_s[middle].mean(), rel=0.15)


def test_policies_of_pools() -> None:
    engine = replace(Policy(1000), chunked=True, coordinated=True, drafted_tokens=2, accepted_tokens=2.0)
    prefill, decode = pool_policies(engine, engine)
    assert not (prefill.chunked or decode.chunked or prefill.coordinated or decode.coordinated)
    assert (prefill.rows, decode.rows) == (engine.max_sequences, 3 * engine.max_sequences)
    assert decode.prefilled and not prefill.prefilled


def test_the_command_reads_two_parts(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(json.dumps(TWO), encoding="utf-8")
    rows = "\n".join(f"{0.02 * i},1000,50" for i in range(200))
    (tmp_path / "trace.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n", encoding="utf-8")
    command = ["replay", "--model", "llama-3.1-8b", "--cluster", "h100x8", "--strategy", str(tmp_path / "two.json")]
    command += ["--trace", str(tmp_path / "trace.csv"), "--slo", "ttft_ms=300,tpot_ms=20", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["attainment"] == 1.0 and document["replayed_goodput"] > 50
