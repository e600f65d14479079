"""The closed form of two pools by hand, against slow searches, and compiled against plain."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import dense_model, latent_model, moe_model

from lts_bench.answer import ANSWER
from lts_bench.cost.pool_answer import IN_FLIGHT
from lts_bench.cost.pool_formulas import (
    Decode,
    Link,
    Prefill,
    best_point,
    highest_load,
    prefill_seconds,
    transfer_seconds,
    ttft_seconds,
)
from lts_bench.cost.pool_model import (
    PoolModel,
    fill_plainly,
    link_price,
    pool_settings,
    prompt_kv_bytes,
)
from lts_bench.cost.steady import Rules
from lts_bench.space.pool_space import PoolSpace
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import parse_workload
from lts_bench.task import make_task

ALONE = Prefill(1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1)
FREE = Link(0.0, 0.0)


def rules(ttft_s: float = 1.0, tpot_s: float = 0.05) -> Rules:
    return Rules(1e9, ttft_s, tpot_s, 0.9, float(-np.log(0.1)), coordinated=False, mixed=False)


@pytest.mark.parametrize("utilisation", [0.0, 0.3, 0.7, 0.95])
def test_a_lone_replica_is_m_d_1(utilisation: float) -> None:
    found = prefill_seconds(ALONE, utilisation / 0.1, 0.5, 1.0)
    assert found == pytest.approx(0.1 + utilisation * 0.1 / (2 * (1 - utilisation)))


def test_replicas_in_turn_wait_less() -> None:
    four = ALONE._replace(replicas=4.0)
    waits = [prefill_seconds(each, rate, 0.5, 1.0) - 0.1 for each, rate in ((ALONE, 7.0), (four, 28.0))]
    assert waits[1] == pytest.approx(waits[0] / 4)


def test_ranks_share_steps() -> None:
    ranks = Prefill(1.0, 1.0, 4.0, 0.1, 0.16, 0.1, 0.16)
    assert highest_load(ranks, FREE) == pytest.approx(4 / 0.16)
    # At 20 a second n = 20 · s(n), s(n) = 0.08 + 0.02 n: 2.67 prompts in 0.133 s; u = 20 · 0.16 / 4.
    assert prefill_seconds(ranks, 20.0, 0.5, 1.0) == pytest.approx(0.4 / 3 * (1 + 0.5 + 0.64 / (8 * 0.2)))
    # Prompts on all ranks take no longer than one after the other.
    assert highest_load(ranks._replace(every=9.0), FREE) == pytest.approx(10.0)


def test_a_transfer_shares_the_link() -> None:
    assert transfer_seconds(Link(0.02, 0.01), 50.0, 1.0) == pytest.approx(0.04)
    assert highest_load(ALONE, Link(0.0, 0.2)) == pytest.approx(5.0)


def test_the_first_token_comes_with_a_decode_step() -> None:
    assert ttft_seconds(ALONE, FREE, 2.0, 0.03, 0.0, 0.9, 2.3) == pytest.approx(0.1 + 1.45 * 0.03)


TIMES = st.floats(1e-3, 0.3)


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 8)), TIMES, TIMES, st.floats(0.0, 0.95),
    st.integers(0, 4), st.floats(1.0, 1.5),
)  # fmt: skip
def test_no_time_shortens_the_wait_by_growing(
    size: tuple[int, int, int], lone: float, more: float, load: float, which: int, factor: float
) -> None:
    replicas, pp, dp = map(float, size)
    each = Prefill(replicas, pp, dp, lone, lone + more * (dp > 1), pp * lone, pp * (lone + more * (dp > 1)))
    rate = load * highest_load(each, FREE)
    fields = ("lone", "every", "lone_latency", "every_latency")
    changed = {name: getattr(each, name) * factor for name in fields[which : which + 1]}
    if which == 4:  # a higher rate
        rate, longer = load * 0.9 * highest_load(each, FREE), load * highest_load(each, FREE)
        assert prefill_seconds(each, rate, 0.9, 2.3) <= prefill_seconds(each, longer, 0.9, 2.3) * (1 + 1e-12)
        return
    slower = each._replace(**changed)
    slower = slower._replace(
        every=max(slower.lone, slower.every), every_latency=max(slower.lone_latency, slower.every_latency)
    )
    if rate < highest_load(slower, FREE):
        assert prefill_seconds(slower, rate, 0.9, 2.3) >= prefill_seconds(each, rate, 0.9, 2.3) * (1 - 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_the_best_point_is_the_highest_rate_of_all_batch_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = np.arange(1.0, 9.0)
    td = np.sort(rng.uniform(0.01, 0.06, 8))
    each = ALONE._replace(replicas=float(rng.integers(1, 4)), lone=0.05, every=0.05)
    link, decode = Link(0.01, float(rng.uniform(0, 0.05))), Decode(float(rng.integers(1, 60)), 1.0, 7.0, 20.0)
    limits = rules(float(rng.uniform(0.1, 0.4)))
    rate, batch, seconds = best_point(batches, 0, 8, td, each, link, decode, limits)
    grid = np.linspace(0, highest_load(each, link), 1001)[:-1]

    def served(b: float, s: float) -> float:
        if b > 7 or s > limits.tpot_limit:
            return 0.0
        below = grid[grid <= decode.lanes * b / (s * 20.0)]
        meets = [r for r in below if ttft_seconds(each, link, 1.0, s, r, 0.9, limits.queue_factor) <= limits.ttft_limit]
        return float(meets[-1]) if meets else 0.0

    slow = max(served(b, s) for b, s in zip(batches, td, strict=True))
    assert rate == pytest.approx(slow, abs=2 * grid[1])
    if rate:
        assert seconds == td[int(batch) - 1]
        assert ttft_seconds(each, link, 1.0, seconds, rate, 0.9, limits.queue_factor) <= limits.ttft_limit


def model_of(model: object, cluster: str, workload: str) -> tuple[PoolSpace, PoolModel]:
    place, engine = load_cluster(cluster), load_engine("vllm")
    space = PoolSpace.of(model, place)  # type: ignore[arg-type]
    return space, PoolModel(pool_settings(model, place, engine, parse_workload(workload)), space)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [dense_model(3, tied=True), moe_model(), latent_model()], ids=["dense", "moe", "mla"])
@pytest.mark.parametrize(
    "limits", ["ttft_ms=20,tpot_ms=3", "ttft_ms=1.5,tpot_ms=1", "ttft_ms=20,memory_fraction=0.002"]
)
def test_compiled_and_plain_give_the_same_bits(model: object, limits: str) -> None:
    space, cost = model_of(model, "h100x16", f"isl=512,osl=64,{limits}")
    rng = np.random.default_rng(0)
    vectors = np.concatenate([space.sample(60, rng), rng.integers(-1, space.sizes + 1, size=(20, len(space.sizes)))])
    answers, points = cost.points(vectors)
    plain, other = np.zeros(len(vectors), dtype=ANSWER), np.zeros((len(vectors), 2))
    fill_plainly(cost.program, vectors[:, 0], *space.split(vectors), plain, other)
    plain["violation"][~plain["legal"]] = answers["violation"][~plain["legal"]]
    np.testing.assert_array_equal(answers, plain)
    np.testing.assert_array_equal(points, other)
    np.testing.assert_array_equal(answers["legal"], space.legal(vectors))


def test_answers_keep_to_the_limits() -> None:
    task = make_task(
        model="mixtral-8x7b", cluster="h100x16", workload="isl=2048,osl=256,ttft_ms=300,tpot_ms=20",
        serving="disaggregated",
    )  # fmt: skip
    answers = task.evaluate(task.space.sample(5000, np.random.default_rng(0)))
    good, bad = answers[answers["feasible"]], answers[~answers["feasible"]]
    assert len(good) and len(bad)
    assert (good["ttft_s"] <= 0.3 * (1 + 1e-12)).all() and (good["tpot_s"] <= 0.02).all()
    assert (good["violation"] == 0).all() and (bad["goodput_per_npu"] == 0).all()
    assert (bad["violation"].sum(axis=1) > 0).all()
    assert (
        task.reference.goodput_per_npu
        == make_task(model="mixtral-8x7b", cluster="h100x16", workload=task.workload).reference.goodput_per_npu
    )


def test_a_limit_on_ttft_is_needed() -> None:
    with pytest.raises(InputError, match=r"workload\.slo\.ttft_ms: is needed"):
        make_task(model="llama-3.1-8b", cluster="h100x8", workload="isl=64,osl=64", serving="disaggregated")


def test_pools_have_no_mixed_steps_and_room_for_two_prompts() -> None:
    prompts, decode = pool_settings(
        dense_model(), load_cluster("h100x8"), load_engine("vllm"), parse_workload("isl=512,osl=64,ttft_ms=20")
    )
    assert not decode.engine.mixed_prefill and not prompts.phases.mixed
    assert prompts.phases.batches.tolist() == [IN_FLIGHT] and prompts.phases.full_context == 513


def test_kv_bytes_of_a_prompt() -> None:
    model, engine = load_model("llama-3.1-8b"), load_engine("generic")
    assert prompt_kv_bytes(model, engine, 1000) == 1000 * model.kv_bytes_per_token
    windowed = load_model("gpt-oss-120b")
    freed = msgspec.structs.replace(engine, sliding_window="freed")
    kept = msgspec.structs.replace(engine, sliding_window="kept")
    assert prompt_kv_bytes(windowed, kept, 4096) == 4096 * windowed.kv_bytes_per_token
    # Half of the layers keep their last 128 tokens.
    assert prompt_kv_bytes(windowed, freed, 4096) == (4096 + 128) / 2 * windowed.kv_bytes_per_token


def test_the_link_is_the_widest_network_between_the_pools() -> None:
    node, nodes = load_cluster("h100x8"), load_cluster("h100x64")
    assert nodes.scale_out is not None
    assert link_price(nodes)[1] == pytest.approx(1 / (nodes.scale_out.bytes_per_s * nodes.scale_out.efficiency))
    assert link_price(node)[1] < link_price(nodes)[1]
    far = load_cluster("h100-oversub-256")
    assert far.scale_out is not None
    slower = far.scale_out.oversubscription / (far.scale_out.bytes_per_s * far.scale_out.efficiency)
    assert link_price(far)[1] == pytest.approx(slower)


def test_a_transfer_takes_the_devices_of_the_smaller_side() -> None:
    task = make_task(
        model="llama-3.1-8b", cluster="h100x16", workload="isl=1000,osl=64,ttft_ms=500", serving="disaggregated"
    )
    assert isinstance(task.cost, PoolModel) and isinstance(task.space, PoolSpace)
    latency, per_byte = link_price(task.cluster)
    sent = 1000 * task.model.kv_bytes_per_token * per_byte
    for pair, (one, other) in enumerate(task.space.pairs[::7].tolist()):
        prefill, decode = task.space.parts[0].degrees[one], task.space.parts[1].degrees[other]
        rank = min(prefill[1] * prefill[4], decode[1] * decode[4])
        assert task.cost.program.alone[7 * pair] == pytest.approx(latency + sent / rank)
        pool = min(each[0] * each[1] * each[2] * each[4] for each in (prefill, decode))
        assert task.cost.program.occupied[7 * pair] == pytest.approx(sent / pool)
