from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import degrees, dense_model, moe_model

from lts_bench.space.check import check_strategy
from lts_bench.space.decisions import Space
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.failure import InputError

CLUSTER = load_cluster("h100x8")
MODEL = moe_model()
SPACE = Space.build(MODEL, CLUSTER)


def anything(seed: int, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=n) for size in SPACE.sizes], axis=1)


def test_names_sizes_and_labels_go_together() -> None:
    assert SPACE.names[0] == "degrees" and len(SPACE.names) == len(SPACE.sizes) == len(SPACE.choices)
    assert [len(labels) for labels in SPACE.choices] == SPACE.sizes.tolist()
    assert "N,K" in SPACE.choices[SPACE.names.index("moe.attention.qkv")]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_samples_are_legal_canonical_and_repeatable(seed: int) -> None:
    vectors = SPACE.sample(100, np.random.default_rng(seed))
    assert SPACE.legal(vectors).all() and (SPACE.canonical(vectors) == vectors).all()
    assert (SPACE.sample(100, np.random.default_rng(seed)) == vectors).all()
    assert (SPACE.repair(vectors) == vectors).all()


def test_samples_reach_every_legal_choice() -> None:
    vectors = SPACE.sample(20_000, np.random.default_rng(0))
    assert set(vectors[:, 0]) == set(range(len(SPACE.degrees)))
    row = SPACE.mask_rows[vectors[:, 0]]
    for column in range(1, len(SPACE.names)):
        for mask in np.unique(row):
            reached = np.unique(vectors[row == mask, column])
            assert reached.tolist() == np.flatnonzero(SPACE.masks[mask, column]).tolist()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_repair_makes_legal_and_keeps_what_is(seed: int) -> None:
    vectors = anything(seed)
    repaired = SPACE.repair(vectors)
    assert SPACE.legal(repaired).all()
    assert (repaired[:, 0] == vectors[:, 0]).all()
    legal = SPACE.legal(vectors)
    assert (repaired[legal] == SPACE.canonical(vectors)[legal]).all()


def test_out_of_range_is_illegal() -> None:
    vectors = SPACE.sample(3, np.random.default_rng(0))
    vectors[0, 0], vectors[1, 3], vectors[2, 5] = len(SPACE.degrees), -1, SPACE.sizes[5]
    assert not SPACE.legal(vectors).any()
    with pytest.raises(InputError):
        SPACE.decode(vectors[0])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_decode_and_encode(seed: int) -> None:
    for vector in SPACE.sample(10, np.random.default_rng(seed)):
        strategy = SPACE.decode(vector)
        assert (SPACE.encode(strategy) == vector).all()
        again = check_strategy(json.loads(json.dumps(strategy.to_json())), MODEL, CLUSTER)
        assert again.strategy == strategy and not again.violations


def test_idle_axes_are_read_as_unsplit() -> None:
    vector = SPACE.sample(1, np.random.default_rng(1))[0]
    vector[0] = next(i for i, row in enumerate(SPACE.degrees) if row[3] == row[4] == row[6] == 1)
    vector[1:] = 0
    strategy = SPACE.decode(vector)
    assert {letter for choice in strategy.sharding.values() for letter in choice} == {"R"}


def test_strategies_outside_are_refused() -> None:
    strategy = SPACE.decode(SPACE.sample(1, np.random.default_rng(2))[0])
    for changes in ({"padding": True}, {"redundant_experts": 8}, {"stages": (9,)}, {"degrees": degrees(dp=7)}):
        fields = {name: getattr(strategy, name) for name in ("degrees", "sharding", "stages")}
        with pytest.raises(InputError):
            SPACE.encode(Strategy(**(fields | changes)))


def test_mask_row_zero_is_of_the_degrees() -> None:
    mask = SPACE.mask(0)
    assert mask[0].sum() == len(SPACE.degrees) and mask.shape[0] == len(SPACE.names)
    assert mask[1:].any(axis=1).all()


def test_plain_data_and_back() -> None:
    again = Space.from_dict(json.loads(json.dumps(SPACE.to_dict())))
    assert again.digest == SPACE.digest and again.names == SPACE.names
    vectors = anything(3)
    assert (again.legal(vectors) == SPACE.legal(vectors)).all()
    assert (again.sample(9, np.random.default_rng(4)) == SPACE.sample(9, np.random.default_rng(4))).all()
    assert Space.build(dense_model(), CLUSTER).digest != SPACE.digest


def test_size_of_a_small_space() -> None:
    space = Space.build(dense_model(1), load_cluster("h100x2"), [degrees(), degrees(tp=2)])
    # One vector on a single device; on two: stream 3, core 4, the other six operators 4 each.
    assert 10**space.log10_size == pytest.approx(1 + 3 * 4 * 4**6)


def test_an_empty_space_is_bad_input() -> None:
    with pytest.raises(InputError):
        Space.build(dense_model(), CLUSTER, [])
