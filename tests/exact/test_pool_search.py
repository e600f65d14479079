"""The search over two pools against all strategies of small spaces, and against many others of large ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_spaces import MODELS, all_vectors, restricted

from lts_bench.cost.pool_model import PoolModel, pool_settings
from lts_bench.exact import optimum
from lts_bench.exact.pool_search import PoolSearch
from lts_bench.exact.search import SAME
from lts_bench.space.pool_space import PoolSpace, pool_pairs
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.engine import load_engine
from lts_bench.specs.perturbation import perturbed
from lts_bench.specs.workload import parse_workload
from lts_bench.task import make_task


def drawn_pools(seed: int, most: int) -> tuple[PoolSpace, PoolModel]:
    """A space of a few pairs of degrees with at most so many strategies of a pool, and drawn constants."""
    rng = np.random.default_rng(seed)
    model = MODELS[str(rng.choice(list(MODELS)))]
    engine = load_engine(str(rng.choice(["generic", "vllm", "trtllm", "sglang"])))
    cluster, engine = perturbed(load_cluster(str(rng.choice(["h100x8", "h100x16", "a100x32"]))), engine, rng)
    lengths = f"isl={rng.choice([64, 256, 2048, 8192])},osl={rng.choice([16, 128, 1024])}"
    limits = f"ttft_ms={np.exp(rng.uniform(0, 4)):.4g},tpot_ms={np.exp(rng.uniform(-1, 2)):.4g}"
    fraction = rng.choice([0.9, 0.9, 0.01, 0.002])
    workload = parse_workload(f"{lengths},{limits},memory_fraction={fraction}")
    pairs = pool_pairs(model, cluster)
    chosen = [pairs[at] for at in sorted(rng.choice(len(pairs), size=3, replace=False))]
    space = PoolSpace.paired(model, cluster, chosen)
    prefill, decode = (restricted(part, rng, most) for part in space.parts)
    return PoolSpace((prefill, decode), space.pairs), PoolModel(pool_settings(model, cluster, engine, workload), space)


def searched(cost: PoolModel, space: PoolSpace) -> PoolSearch:
    search = PoolSearch(cost, space)
    search.run()
    return search


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_equals_brute_force_on_small_spaces(seed: int) -> None:
    space, cost = drawn_pools(seed, most=60)
    search = searched(cost, space)
    best = float(cost.points(all_vectors(space))[1][:, 1].max())
    assert search.rate == pytest.approx(best, rel=SAME)
    assert search.rate <= search.bound <= search.rate * (1 + SAME)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_no_strategy_of_a_large_space_exceeds_the_bound(seed: int) -> None:
    space, cost = drawn_pools(seed, most=10**9)
    search = searched(cost, space)
    rates = cost.points(space.sample(20_000, np.random.default_rng(seed)))[1][:, 1]
    assert rates.max() <= search.bound * (1 + SAME)
    assert search.bound <= search.rate * (1 + SAME)


def test_the_optimum_of_a_task() -> None:
    task = make_task(
        model="llama-3.1-8b", cluster="h100x8", workload="isl=2048,osl=256,ttft_ms=300,tpot_ms=20",
        serving="disaggregated",
    )  # fmt: skip
    best = optimum(task)
    assert best.certified and best.vector is not None
    answer = task.evaluate(best.vector[None])[0]
    assert answer["feasible"] and answer["goodput_per_npu"] == best.goodput_per_npu
    assert answer["ttft_s"] <= 0.3 and answer["tpot_s"] <= 0.02
    np.testing.assert_array_equal(task.space.encode(best.strategy), best.vector)


def test_what_is_infeasible_is_proven_so() -> None:
    task = make_task(
        model="llama-3.1-8b", cluster="h100x8", workload="isl=2048,osl=256,ttft_ms=300,tpot_ms=0.1",
        serving="disaggregated",
    )  # fmt: skip
    best = optimum(task)
    assert (best.goodput_per_npu, best.strategy, best.bound) == (0.0, None, 0.0)
