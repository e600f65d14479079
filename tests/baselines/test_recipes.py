"""The library of recipes: every pair on every degree once, the likeliest first."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from fakes import ToySpace, ToyTask

from lts_bench import make_task
from lts_bench.baselines.recipes import RECIPES, Recipes, letter, recipe_vectors, rule_of_thumb
from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.operators import MATMUL, MEGATRON, operators
from lts_bench.specs.config import list_models, load_model
from lts_bench.task import Task
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

FEATURES = ToyTask().features


class TestRecipes(AgentConformance):
    agent = Recipes

    def task(self):
        return ToyTask()


@cache
def mixtral_task() -> Task:
    return make_task(model="mixtral-8x7b", cluster="h100x8", workload="isl=1024,osl=512,ttft_ms=500,tpot_ms=40")


class TestRecipesOnARealSpace(AgentConformance):
    agent = Recipes

    def task(self):
        return mixtral_task()


@pytest.fixture()
def mixtral() -> Task:
    return mixtral_task()


def all_vectors(space, features) -> np.ndarray:
    return np.concatenate(list(recipe_vectors(space, features, 64)))


def test_all_are_legal_and_different():
    vectors = all_vectors(ToySpace(), FEATURES)
    assert ToySpace().legal(vectors).all()
    assert len(np.unique(vectors, axis=0)) == len(vectors)


def test_the_order_does_not_depend_on_the_batch():
    whole = np.concatenate(list(recipe_vectors(ToySpace(), FEATURES, 10_000)))
    assert np.array_equal(whole, all_vectors(ToySpace(), FEATURES))


def test_one_axis_comes_with_every_recipe_and_two_with_every_pair(mixtral):
    vectors = all_vectors(mixtral.space, mixtral.features)
    degrees = mixtral.space.degrees[vectors[:, 0]]
    counts = {index: len(vectors[vectors[:, 0] == index]) for index in np.unique(vectors[:, 0]).tolist()}
    for index, row in enumerate(mixtral.space.degrees.tolist()):
        most = {(True, True): 1, (True, False): len(RECIPES)}.get((row[3] == 1, row[4] == 1), len(RECIPES) ** 2)
        assert 1 <= counts[index] <= most
    assert (degrees[:, 3] > 1).any()


def test_megatrons_pattern_is_among_them_at_every_degree(mixtral):
    """But for the router, which follows the residual here and is replicated there."""
    mine = {vector.tobytes() for vector in all_vectors(mixtral.space, mixtral.features)}
    column = mixtral.space.names.index("moe.stream")
    plain = [v for v in megatron_vectors(mixtral.space) if mixtral.space.choices[column][v[column]] == "R,R"]
    assert plain
    assert {vector.tobytes() for vector in plain} <= mine


def test_the_first_recipe_is_megatrons():
    assert all(letter(RECIPES["megatron"], name) == own for name, own in MEGATRON.items() if "experts" not in name)


@pytest.mark.parametrize("model", list_models())
def test_every_recipe_names_letters_that_the_operators_have(model):
    for operator in operators(load_model(model)):
        if operator.axes == 2:
            letters = {*operator.letters, "kv_sequence"} if operator.name == "attention.core" else {*operator.letters}
            assert {letter(recipe, operator.name) for recipe in RECIPES.values()} <= letters


def test_pope_s_two_dimensional_layout_is_a_pair():
    """x splits the hidden features, y the inner ones (arXiv 2211.05102, section 3.2.2)."""
    pair = RECIPES["hidden"], RECIPES["megatron"]
    assert [tuple(letter(axis, f"ffn.{name}") for axis in pair) for name in ("up", "down")] == [("K", "N"), ("N", "K")]
    assert all(letter(axis, "ffn.up") in MATMUL for axis in pair)


def test_degrees_that_hold_the_weights_come_first_the_fewest_devices_in_front():
    space = ToySpace()
    order = rule_of_thumb(space.degrees, FEATURES)
    degrees = space.degrees[order]
    replica = degrees[:, 1] * degrees[:, 3] * degrees[:, 4]
    assert sorted(order.tolist()) == list(range(len(space.degrees)))
    assert replica.tolist() == sorted(replica.tolist(), key=lambda devices: (devices < 2, devices))


def test_experts_that_are_whole_come_before_those_that_are_cut(mixtral):
    order = rule_of_thumb(mixtral.space.degrees, mixtral.features | {"hbm_bytes": 1e15})
    cut = mixtral.space.degrees[order, 6] > 1
    assert not cut[: np.flatnonzero(cut)[0]].any() and cut[np.flatnonzero(cut)[0] :].all()


def test_a_short_budget_sees_many_degrees_and_many_recipes(mixtral):
    vectors = all_vectors(mixtral.space, mixtral.features)[:200]
    assert len(np.unique(vectors[:, 0])) > 50
    assert len(np.unique(vectors[vectors[:, 0] == vectors[0, 0]], axis=0)) >= 1


def test_it_stops_when_the_library_ends():
    meter = run_agent(Recipes, ToyTask(), 100_000)
    assert meter.used == meter.unique < 100_000
