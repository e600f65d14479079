from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import dense_model, moe_model

from lts_bench.space.degrees import valid_degrees
from lts_bench.space.disaggregated import check_disaggregated
from lts_bench.space.pool_space import PoolSpace, pool_degrees, pool_pairs, pool_sizes, read_space
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.failure import InputError

CLUSTER = load_cluster("h100x16")
SPACES = [PoolSpace.of(model, CLUSTER) for model in (dense_model(3, heads=6, kv_heads=3), moe_model())]


@pytest.mark.parametrize(
    ("cluster", "sizes"),
    [
        ("h100x16", [(8, 8)]),
        ("h100x32", [(8, 24), (16, 16), (24, 8)]),
        ("h100x8", [(n, 8 - n) for n in range(1, 8)]),
        ("h100x256", [(32 * n, 256 - 32 * n) for n in range(1, 8)]),
        ("gb200x72", [(9 * n, 72 - 9 * n) for n in range(1, 8)]),
    ],
)
def test_pools_are_whole_domains_or_parts_of_the_only_one(cluster: str, sizes: list[tuple[int, int]]) -> None:
    assert list(pool_sizes(load_cluster(cluster))) == sizes


@pytest.mark.parametrize("cluster", ["tpu-v5e-8x8", "h100x1"])
def test_what_cannot_be_divided(cluster: str) -> None:
    with pytest.raises(InputError, match="cannot be divided into pools"):
        pool_sizes(load_cluster(cluster))


def test_degrees_of_a_pool() -> None:
    listed = pool_degrees(moe_model(), CLUSTER, 8)
    assert listed and set(listed) < set(valid_degrees(moe_model(), load_cluster("h100x8")))
    assert all(each.tx == 1 and 1 in (each.ep, each.etp) and each.devices <= 8 for each in listed)


def test_pairs_fit_the_cluster_and_are_distinct() -> None:
    pairs = pool_pairs(moe_model(), load_cluster("h100x8"))
    assert len(set(pairs)) == len(pairs)
    assert all(prefill.devices + decode.devices <= 8 for prefill, decode in pairs)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SPACES), st.integers(0, 2**32))
def test_a_vector_is_a_strategy_and_back(space: PoolSpace, seed: int) -> None:
    model = dense_model(3, heads=6, kv_heads=3) if space is SPACES[0] else moe_model()
    rng = np.random.default_rng(seed)
    for vector in space.sample(5, rng):
        strategy = space.decode(vector)
        checked = check_disaggregated(strategy.to_json(), model, CLUSTER)
        assert checked.violations == ()
        np.testing.assert_array_equal(space.encode(checked.strategy), space.canonical(vector)[0])


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SPACES), st.integers(0, 2**32))
def test_legal_where_both_parts_are(space: PoolSpace, seed: int) -> None:
    vectors = np.random.default_rng(seed).integers(-1, space.sizes + 1, size=(200, len(space.sizes)))
    prefill, decode = (part.legal(own) for part, own in zip(space.parts, space.split(vectors), strict=True))
    np.testing.assert_array_equal(space.legal(vectors), prefill & decode)
    inside = vectors[space.in_range(vectors)]
    assert space.legal(space.repair(inside)).all() if len(inside) else True


@pytest.mark.parametrize("space", SPACES, ids=["dense", "routed"])
def test_masks_are_those_of_the_parts(space: PoolSpace) -> None:
    middle = len(space.parts[0].names)
    for pair in (0, len(space.pairs) // 2, len(space.pairs) - 1):
        mask = space.mask(pair)
        for part, degrees, rows in zip(
            space.parts, space.pairs[pair], (slice(1, middle), slice(middle, None)), strict=True
        ):
            own = part.mask(int(degrees))[1:]
            width = min(own.shape[1], mask.shape[1])
            np.testing.assert_array_equal(mask[rows, :width], own[:, :width])
            assert not mask[rows, width:].any()
    assert mask[0].sum() == len(space.pairs)


@pytest.mark.parametrize("space", SPACES, ids=["dense", "routed"])
def test_plain_data_and_back(space: PoolSpace) -> None:
    again = read_space(space.to_dict())
    assert isinstance(again, PoolSpace)
    assert (again.digest, again.names, again.choices) == (space.digest, space.names, space.choices)
    np.testing.assert_array_equal(again.masks, space.masks)
    np.testing.assert_array_equal(again.degrees, space.degrees)
    part = space.parts[0]
    assert read_space(part.to_dict()).digest == part.digest


def test_the_size_counts_every_strategy_once() -> None:
    space = SPACES[0]
    parts = [np.exp(np.log(part.masks[:, 1:].sum(axis=2)).sum(axis=1))[part.mask_rows] for part in space.parts]
    expected = sum(parts[0][one] * parts[1][other] for one, other in space.pairs)
    assert space.log10_size == pytest.approx(np.log10(expected))


def test_names_and_labels() -> None:
    space = SPACES[1]
    assert space.names[1].startswith("prefill.") and space.names[-1] == "decode.head"
    assert space.choices[0][0].startswith("prefill replicas=") and " / decode replicas=" in space.choices[0][0]
    assert list(space.sizes) == [len(each) for each in space.choices]


def test_strategies_of_another_space() -> None:
    space = SPACES[1]
    strategy = space.decode(space.sample(1, np.random.default_rng(0))[0])
    with pytest.raises(InputError, match="needs a part for each pool"):
        space.encode(strategy.prefill)
    with pytest.raises(InputError, match="is not in the space of one"):
        space.parts[0].encode(strategy)
    with pytest.raises(InputError, match="out of range"):
        space.decode(space.sizes)
    few = PoolSpace.paired(moe_model(), CLUSTER, pool_pairs(moe_model(), CLUSTER)[:1])
    other = few.paired(moe_model(), CLUSTER, pool_pairs(moe_model(), CLUSTER)[-1:])
    with pytest.raises(InputError, match="not in the task's space"):
        few.encode(other.decode(other.sample(1, np.random.default_rng(0))[0]))
