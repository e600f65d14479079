"""The search against all strategies of small spaces, and against millions of others of large ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_spaces import MODELS, all_vectors, drawn_space, restricted
from tiny_settings import setting, space_of

from lts_bench.cost.model import CostModel
from lts_bench.exact.search import SAME, Search
from lts_bench.space.decisions import Space
from lts_bench.space.strategy import Degrees


def searched(cost: CostModel, space: Space) -> Search:
    search = Search(cost, space)
    search.run()
    return search


def brute_force(cost: CostModel, space: Space) -> float:
    return float(cost.evaluate(all_vectors(space))["goodput_per_npu"].max())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
@example(896364)  # prompts in decode steps: their prefill is what they add to the step
@example(11195)  # a weighted bound below 0 at one rung and above at the other
@example(27)  # sequences that are split: one whole takes more than two in the mean
def test_equals_brute_force_on_small_spaces(seed: int) -> None:
    space, cost = drawn_space(seed)
    search = searched(cost, space)
    assert search.goodput == pytest.approx(brute_force(cost, space), rel=SAME)
    mixing_pipeline = len(cost.program.mixed) > 0 and cost.program.pp.max() > 1
    assert mixing_pipeline or search.bound <= search.goodput * (1 + SAME)
    assert search.bound >= search.goodput


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_whole_space_of_one_axis(model: object) -> None:
    """Every choice of every operator on three groups: a device, a pipeline of unequal stages, a whole node."""
    space, cost = space_of(setting(model, workload="isl=512,osl=64,ttft_ms=40,tpot_ms=2"))  # type: ignore[arg-type]
    listed = [Degrees(*map(int, row)) for row in space.degrees]
    chosen = [each for each in listed if each.tx == 1 and (each.pp, each.tp) in ((1, 1), (2, 4), (1, 8))][:6]
    some = Space.build(cost.setting.model, cost.setting.cluster, chosen)
    few = restricted(some, np.random.default_rng(0), 20_000)
    own = CostModel(cost.setting, chosen)
    search = searched(own, few)
    assert search.goodput > 0
    assert search.goodput == pytest.approx(brute_force(own, few), rel=SAME)
    assert search.bound <= search.goodput * (1 + SAME)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_no_strategy_of_a_large_space_exceeds_the_bound(seed: int) -> None:
    space, cost = drawn_space(seed, most=10**9)
    search = searched(cost, space)
    found = cost.evaluate(space.sample(20_000, np.random.default_rng(seed)))["goodput_per_npu"].max()
    assert found <= search.bound * (1 + SAME)


def test_what_is_infeasible_is_proven_so() -> None:
    space, cost = space_of(setting(MODELS["dense"], workload="isl=512,osl=64,tpot_ms=0.001"))
    search = searched(cost, space)
    assert (search.goodput, search.vector, search.bound) == (0.0, None, 0.0)


def test_a_strategy_that_is_known_already_stays() -> None:
    space, cost = space_of(setting(MODELS["two kinds"]))
    first = searched(cost, space)
    again = Search(cost, space)
    again.offer(first.vector[None])
    again.run()
    assert again.goodput == first.goodput
    np.testing.assert_array_equal(again.vector, first.vector)
