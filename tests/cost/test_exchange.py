from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.collectives import Collective, least, seconds
from lts_bench.cost.collectives import regimes as collective_regimes
from lts_bench.cost.exchange import (
    DIRECTIONS,
    MODES,
    Direction,
    Mode,
    copies,
    dispatched_bytes,
    exchange,
    exchange_regimes,
)
from lts_bench.cost.groups import place_group
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.collectives import Exchange, Stage

H100 = load_cluster("h100x64")


def time(nodes: int, mode: Mode, direction: Direction, tokens: float, name: str = "h100x64") -> float:
    cluster = load_cluster(name)
    group = place_group(cluster, 64, 8 * nodes, 1)
    sent = tokens * (dispatched_bytes(7168, 1) if direction == "dispatch" else 7168 * 2)
    return float(least(exchange(cluster, group, mode, direction, 8), np.array([sent]))[0])


def test_fp8_tokens_come_with_a_scale_for_every_128_elements() -> None:
    assert dispatched_bytes(7168, 1) == 7168 + 56 * 4
    assert dispatched_bytes(7168, 2) == 2 * 7168


def test_copies_of_a_token() -> None:
    node, four = place_group(H100, 8, 8, 1), place_group(H100, 32, 32, 1)
    # Low latency: k·(1 − 1/p) in all, k·(1 − 1/m) of them leave the node.
    assert copies(node, "low_latency", 8) == pytest.approx((7.0, 0.0))
    assert copies(four, "low_latency", 8) == pytest.approx((8 / 4 - 8 / 32, 6.0))
    # Normal: once for every other node, 3·(1 − (3/4)^8), and to the distinct devices inside.
    assert copies(node, "normal", 8) == pytest.approx((7 * (1 - (7 / 8) ** 8), 0.0))
    assert copies(four, "normal", 8) == pytest.approx((28 * (1 - (31 / 32) ** 8), 3 * (1 - 0.75**8)))


def test_the_slower_network_counts() -> None:
    way = Exchange((Stage(10, 5),), efficiency=0.5, crossing_efficiency=(0.8, 1.0))
    four = place_group(H100, 32, 32, 1)
    line = exchange_regimes(H100, four, way, (1.0, 2.0), sms=20)[0]
    assert line == pytest.approx([20e-6, 2 / 50e9])
    line = exchange_regimes(H100, four, way, (100.0, 2.0), sms=20)[0]
    assert line == pytest.approx([20e-6, 100 / (0.5 * 450e9)])


def test_few_multiprocessors_limit_the_rate() -> None:
    way = Exchange((Stage(10),), 0.9, crossing_efficiency=(0.9,), bytes_per_s_per_sm=10e9)
    node = place_group(H100, 8, 8, 1)
    few, many = (exchange_regimes(H100, node, way, (1.0, 0.0), sms)[0, 1] for sms in (20, 100))
    assert few == pytest.approx(1 / 200e9)
    assert many == pytest.approx(1 / (0.9 * 450e9))


@pytest.mark.parametrize(("nodes", "latency", "per_token"), [(1, 13, 204), (2, 20, 633), (4, 25, 923), (8, 27, 1082)])
def test_low_latency_dispatch_as_published(nodes: int, latency: float, per_token: float) -> None:
    # h = 7168, top-8: α in us and ns a token.
    assert time(nodes, "low_latency", "dispatch", 0) * 1e6 == pytest.approx(latency, rel=0.15)
    slope = time(nodes, "low_latency", "dispatch", 1001) - time(nodes, "low_latency", "dispatch", 1)
    assert slope * 1e6 == pytest.approx(per_token, rel=0.06)


@pytest.mark.parametrize(("nodes", "per_token"), [(1, 464), (2, 1238), (4, 1891), (8, 2159)])
def test_low_latency_combine_as_published(nodes: int, per_token: float) -> None:
    slope = time(nodes, "low_latency", "combine", 1001) - time(nodes, "low_latency", "combine", 1)
    assert slope * 1e6 == pytest.approx(per_token, rel=0.06)


def test_an_oversubscribed_level_slows_the_exchange() -> None:
    for mode in MODES:
        tree, flat = load_cluster("h100-oversub-256"), load_cluster("h100x256")
        wide = place_group(tree, 256, 256, 1)
        narrow = place_group(tree, 64, 64, 1)
        assert exchange(tree, wide, mode, "dispatch", 8)[0, 1] > 2 * exchange(flat, wide, mode, "dispatch", 8)[0, 1]
        assert (exchange(tree, narrow, mode, "dispatch", 8) == exchange(flat, narrow, mode, "dispatch", 8)).all()


def test_without_constants_it_is_an_all_to_all_of_the_copies() -> None:
    mesh = load_cluster("mi300x-8")
    group = place_group(mesh, 8, 8, 1)
    sent = np.array([[1e6]])
    expected = seconds(collective_regimes(mesh, group)[None], Collective.ALL_TO_ALL, 2 * sent)
    assert least(exchange(mesh, group, "low_latency", "dispatch", 2)[None], sent) == pytest.approx(expected)


def test_one_rank_exchanges_nothing() -> None:
    for mode in MODES:
        assert not exchange(H100, place_group(H100, 8, 1, 1), mode, "dispatch", 8).any()


@given(st.sampled_from(MODES), st.sampled_from(DIRECTIONS), st.sampled_from([1, 2, 4, 8]), st.floats(0, 1e5))
def test_time_rises_with_tokens(mode: Mode, direction: Direction, nodes: int, tokens: float) -> None:
    assert time(nodes, mode, direction, tokens) <= time(nodes, mode, direction, tokens * 1.5 + 1)
