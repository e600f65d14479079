from __future__ import annotations

from math import log2
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.collectives import Collective, crossing_rate, device_rate, regimes, seconds
from lts_bench.cost.groups import Group, place_group
from lts_bench.specs.cluster import Cluster, load_cluster

KERNELS = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
H100 = load_cluster("h100x32")
UP, OUT = H100.scale_up, H100.scale_out
assert OUT is not None
CROSSING = 50e9 * 0.9


def price(cluster: Cluster, group: Group, kind: Collective, n: float) -> float:
    return float(seconds(regimes(cluster, group)[None], kind, np.array([[n]]))[0, 0])


def inside(p: int) -> Group:
    return place_group(H100, 8, p, 1)


def test_a_single_device_costs_nothing() -> None:
    assert not regimes(H100, place_group(H100, 8, 1, 1)).any()


def test_large_all_reduce_is_a_ring() -> None:
    # 2·(7/8)·1 GB at 76 % of 450 GB/s after 26 us.
    expected = 26e-6 + 2 * 7 / 8 * 1e9 / (0.76 * 450e9)
    assert price(H100, inside(8), Collective.ALL_REDUCE, 1e9) == pytest.approx(expected)


def test_small_all_reduce_is_latency() -> None:
    # 2.8 us at 2 devices and 0.3 us for each of two doublings.
    assert price(H100, inside(8), Collective.ALL_REDUCE, 0) == pytest.approx(3.4e-6)


@pytest.mark.parametrize("kind", [Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL])
def test_large_exchanges_move_their_share(kind: Collective) -> None:
    regime = UP.all_to_all if kind is Collective.ALL_TO_ALL else UP.all_gather
    expected = regime.large_latency_us * 1e-6 + 3 / 4 * 1e9 / (regime.large_efficiency * 450e9)
    assert price(H100, inside(4), kind, 1e9) == pytest.approx(expected)


def test_one_rank_a_node_is_priced_at_the_network() -> None:
    apart = place_group(H100, 32, 4, 8)
    # All-gather of 1 GB over 4 nodes: 3/4 of it through one card, two doublings of 10 us, nothing inside.
    assert price(H100, apart, Collective.ALL_GATHER, 1e9) == pytest.approx(20e-6 + 0.75 * 1e9 / CROSSING)
    assert price(H100, apart, Collective.ALL_REDUCE, 1e9) == pytest.approx(40e-6 + 1.5 * 1e9 / CROSSING)
    assert price(H100, apart, Collective.ALL_REDUCE, 1e6) > 5 * price(H100, inside(4), Collective.ALL_REDUCE, 1e6)


def test_two_levels_add_up() -> None:
    both = place_group(H100, 32, 32, 1)
    n = 1e9
    # Reduce-scatter and all-gather inside, then 1/8 of the buffer over each of the 8 cards of a node.
    expected = 26e-6 + 2 * 7 / 8 * n / (0.76 * 450e9) + 2 * 2 * 10e-6 + 2 * 3 / 4 * n / (8 * CROSSING)
    assert price(H100, both, Collective.ALL_REDUCE, n) == pytest.approx(expected)


def test_all_to_all_takes_the_slower_level() -> None:
    both = place_group(H100, 32, 32, 1)
    # The network binds in both regimes inside, so the lesser latency counts: 7.9 us + 2 doublings of 0.8 us.
    expected = 9.5e-6 + 2 * 10e-6 + 3 / 4 * 1e9 / CROSSING
    assert price(H100, both, Collective.ALL_TO_ALL, 1e9) == pytest.approx(expected)


def test_a_pair_of_a_full_mesh_uses_one_link() -> None:
    mesh = load_cluster("mi300x-8").scale_up
    assert device_rate(mesh, 2) == 64e9
    assert device_rate(mesh, 8) == 7 * 64e9
    assert device_rate(UP, 2) == device_rate(UP, 8) == 450e9


def test_strided_torus_groups_share_their_links() -> None:
    torus = load_cluster("tpu-v5p-4x4x8")
    n = 1e9
    next_to_each_other = place_group(torus, 128, 8, 1)  # ring of 8
    every_second = place_group(torus, 128, 4, 2)  # ring of 4, two groups on the same links
    rate = 2 * 90e9 * 0.9
    assert price(torus, next_to_each_other, Collective.ALL_GATHER, n) == pytest.approx(4e-6 + 7 / 8 * n / rate)
    assert price(torus, every_second, Collective.ALL_GATHER, n) == pytest.approx(4e-6 + 3 / 4 * n / (rate / 2))
    # All-to-all on a ring of a: n·a/(8·link); the same ring unwrapped (half of the axis) takes twice that.
    link = 90e9 * 0.9
    assert price(torus, next_to_each_other, Collective.ALL_TO_ALL, n) == pytest.approx(4e-6 + n * 8 / (8 * link))
    assert price(torus, place_group(torus, 128, 4, 1), Collective.ALL_TO_ALL, n) == pytest.approx(
        3e-6 + n * 4 / (4 * link)
    )


def test_a_strided_group_leaves_the_tray() -> None:
    rack = load_cluster("gb200x72")
    tray, strided = place_group(rack, 16, 4, 1), place_group(rack, 16, 4, 4)
    assert price(rack, strided, Collective.ALL_REDUCE, 1024) > 3 * price(rack, tray, Collective.ALL_REDUCE, 1024)


def test_oversubscription_above_the_block() -> None:
    tree = load_cluster("h100-oversub-256")
    assert crossing_rate(tree, Group(8, 1, 8, 57)) == pytest.approx(CROSSING)
    assert crossing_rate(tree, Group(16, 1, 16, 121)) == pytest.approx(CROSSING / 4)


def test_dragonfly_pays_its_global_links_beyond_a_group() -> None:
    dragonfly = load_cluster("h100-dragonfly-256")  # 8 groups of 32 devices
    assert crossing_rate(dragonfly, Group(4, 1, 4, 25)) == pytest.approx(50e9 * 0.85)
    # 4 links of 50 GB/s for the 8 devices of a router.
    assert crossing_rate(dragonfly, Group(8, 1, 8, 57)) == pytest.approx(50e9 * 0.85 * 4 / 8)


GROUPS = [
    place_group(H100, 32, size, stride) for size in (2, 4, 8, 16, 32) for stride in (1, 2, 8) if size * stride <= 32
]


@given(st.sampled_from(GROUPS), st.sampled_from(list(Collective)), st.floats(0, 1e10), st.floats(1, 10))
def test_time_rises_with_bytes(group: Group, kind: Collective, n: float, factor: float) -> None:
    assert price(H100, group, kind, n) <= price(H100, group, kind, n * factor)


@given(st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.ALL_TO_ALL]), st.floats(1, 1e10))
def test_no_collective_beats_its_wire_bytes(kind: Collective, n: float) -> None:
    for p in (2, 4, 8):
        wire = n * (p - 1) / p * (2 if kind is Collective.ALL_REDUCE else 1)
        assert price(H100, inside(p), kind, n) >= wire / 450e9


@given(st.floats(1, 1e9))
def test_an_all_reduce_is_never_dearer_in_steps_over_factors_of_its_group(n: float) -> None:
    for a, b in ((2, 2), (2, 4), (4, 2)):
        steps = price(H100, place_group(H100, 8, a, b), Collective.ALL_REDUCE, n)
        steps += price(H100, place_group(H100, 8, b, 1), Collective.ALL_REDUCE, n)
        assert price(H100, inside(a * b), Collective.ALL_REDUCE, n) <= steps


def test_dispatch_latency_grows_with_nodes_as_measured() -> None:
    # DeepEP: 13, 20, 25, 27 us on 1, 2, 4, 8 nodes.
    wide = load_cluster("h100x64")
    for nodes, measured in ((1, 13e-6), (2, 20e-6), (4, 25e-6), (8, 27e-6)):
        group = place_group(wide, 8 * nodes, 8 * nodes, 1)
        assert measured / 2 < price(wide, group, Collective.ALL_TO_ALL, 0) < measured * 2


NAMES = {"all_reduce": Collective.ALL_REDUCE, "all_gather": Collective.ALL_GATHER,
         "reduce_scatter": Collective.REDUCE_SCATTER, "alltoall": Collective.ALL_TO_ALL}  # fmt: skip


@pytest.mark.skipif(not KERNELS.is_dir(), reason="needs the measured tables beside the repository")
@pytest.mark.parametrize(("system", "name"), [("h100_sxm", "h100x8"), ("b200_sxm", "b200x8"), ("a100_sxm", "a100x8")])
def test_median_error_on_measured_collectives(system: str, name: str) -> None:
    import pandas as pd

    cluster = load_cluster(name)
    rows = pd.read_csv(KERNELS / "collectives.csv")
    rows = rows[rows.system == system].groupby(["op_name", "num_gpus", "message_bytes"]).latency_us.min().reset_index()
    for op, kind in NAMES.items():
        part = rows[(rows.op_name == op) & (rows.num_gpus <= 8)]
        predicted = [
            price(cluster, place_group(cluster, 8, p, 1), kind, n) * 1e6
            for p, n in zip(part.num_gpus, part.message_bytes, strict=True)
        ]
        error = np.abs(np.array(predicted) / part.latency_us - 1)
        assert np.median(error) < 0.2, op
        assert np.quantile(error, 0.9) < 0.5, op


def test_latency_of_a_switch_rises_with_every_doubling() -> None:
    flat = msgspec.structs.replace(UP.all_gather, latency_per_doubling_us=5.0)
    cluster = msgspec.structs.replace(H100, scale_up=msgspec.structs.replace(UP, all_gather=flat))
    for p in (2, 4, 8):
        expected = (flat.latency_us + 5 * (log2(p) - 1)) * 1e-6
        assert regimes(cluster, inside(p))[Collective.ALL_GATHER, 0, 0] == pytest.approx(expected)
