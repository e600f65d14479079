from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.collectives import SHARP_GAIN, Collective, device_rate, efficiency, regimes, seconds
from lts_bench.cost.groups import Group, place_group
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.collectives import CustomAllReduce, Regime

H100 = load_cluster("h100x32")
OUT = H100.scale_out
assert OUT is not None
CROSSING = 50e9 * 0.9
RACK = load_cluster("gb200x72")
EXCHANGES = [Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL]


def price(cluster: Cluster, group: Group, kind: Collective, n: float, library: str | None = None) -> float:
    return float(seconds(regimes(cluster, group, library)[None], kind, np.array([[n]]))[0, 0])


def inside(p: int, cluster: Cluster = H100) -> Group:
    return place_group(cluster, cluster.scale_up.size, p, 1)


def with_constants(cluster: Cluster, **changes: object) -> Cluster:
    constants = msgspec.structs.replace(cluster.collectives, **changes)
    return msgspec.structs.replace(cluster, collectives=constants)


def test_a_single_device_costs_nothing() -> None:
    assert not regimes(H100, inside(1)).any()


LINE = (Regime(latency_us=10, efficiency=0.5, latency_per_device_us=2, efficiency_growth=0.25),)
ONE_LINE = with_constants(H100, all_reduce=LINE, all_gather=LINE, all_to_all=LINE)


def test_a_regime_by_hand() -> None:
    # 8 devices: 10 + 6·2 us, 0.5·4^0.25 of 450 GB/s, twice 7/8 of the bytes.
    rate = 0.5 * 4**0.25 * 450e9
    assert price(ONE_LINE, inside(8), Collective.ALL_REDUCE, 1e9) == pytest.approx(22e-6 + 2 * 7 / 8 * 1e9 / rate)
    for kind in EXCHANGES:
        assert price(ONE_LINE, inside(8), kind, 1e9) == pytest.approx(22e-6 + 7 / 8 * 1e9 / rate)


def test_efficiency_never_exceeds_the_rate() -> None:
    assert efficiency(Regime(1, 0.9, efficiency_growth=1.0), 8) == 1.0


def test_the_lesser_of_the_regimes_counts() -> None:
    both = with_constants(H100, all_gather=(Regime(1, 0.01), Regime(100, 1.0)))
    assert price(both, inside(2), Collective.ALL_GATHER, 0) == pytest.approx(1e-6)
    assert price(both, inside(2), Collective.ALL_GATHER, 1e9) == pytest.approx(100e-6 + 0.5e9 / 450e9)


def test_an_engines_own_all_reduce_within_its_reach() -> None:
    own = CustomAllReduce((Regime(3, 0.5),), devices=4)
    cluster = with_constants(H100, custom_all_reduce={"mine": own})
    assert price(cluster, inside(4), Collective.ALL_REDUCE, 0, "mine") == pytest.approx(3e-6)
    vendor = price(cluster, inside(8), Collective.ALL_REDUCE, 0)
    assert price(cluster, inside(8), Collective.ALL_REDUCE, 0, "mine") == vendor > 3e-6
    assert price(cluster, inside(8), Collective.ALL_REDUCE, 0, "unheard of") == vendor
    # Every second device: four devices reach over seven.
    strided = place_group(cluster, 8, 4, 2)
    assert price(cluster, strided, Collective.ALL_REDUCE, 0, "mine") > 3e-6
    # Across nodes the vendor's library works inside them as well.
    wide = place_group(cluster, 32, 8, 4)
    assert (regimes(cluster, wide, "mine") == regimes(cluster, wide)).all()


def test_an_engines_kernels_reduce_and_nothing_else() -> None:
    plain, own = regimes(H100, inside(8)), regimes(H100, inside(8), "trtllm")
    assert (plain[Collective.ALL_REDUCE] != own[Collective.ALL_REDUCE]).any()
    assert (plain[Collective.REDUCE_SCATTER :] == own[Collective.REDUCE_SCATTER :]).all()


@pytest.mark.parametrize(("p", "measured"), [(2, 11.2), (4, 17.1), (8, 29.5), (16, 51.2)])
def test_small_all_reduces_of_a_rack(p: int, measured: float) -> None:
    # GB200, NCCL, 32 KB: the latency grows with the devices, not with their logarithm.
    time = price(RACK, inside(p, RACK), Collective.ALL_REDUCE, 32768) * 1e6
    assert time == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize("library", [None, "vllm", "sglang", "trtllm"])
def test_sixteen_devices_across_trays_are_not_a_tray(library: str | None) -> None:
    # 48-50 us measured where the figure of a tray would say 3-5 us.
    for n in (1024, 16384):
        time = price(RACK, inside(16, RACK), Collective.ALL_REDUCE, n, library) * 1e6
        assert 46 < time < 54


def test_a_strided_group_leaves_the_tray() -> None:
    tray, strided = place_group(RACK, 16, 4, 1), place_group(RACK, 16, 4, 4)
    for library in ("trtllm", "sglang"):
        near = price(RACK, tray, Collective.ALL_REDUCE, 1024, library)
        assert price(RACK, strided, Collective.ALL_REDUCE, 1024, library) > 3 * near


def test_more_devices_are_not_always_faster() -> None:
    # Small messages: every doubling costs. Large ones on H100: 8 reduce in the switch and beat 4.
    small = [price(H100, inside(p), Collective.ALL_REDUCE, 8192) for p in (2, 4, 8)]
    assert small == sorted(small)
    assert price(H100, inside(8), Collective.ALL_REDUCE, 5e8) < price(H100, inside(4), Collective.ALL_REDUCE, 5e8)


def test_one_rank_a_node_is_priced_at_the_network() -> None:
    apart = place_group(H100, 32, 4, 8)
    # All-gather of 1 GB over 4 nodes: 3/4 of it through one card, two doublings of 10 us, nothing inside.
    assert price(H100, apart, Collective.ALL_GATHER, 1e9) == pytest.approx(20e-6 + 0.75 * 1e9 / CROSSING)
    assert price(H100, apart, Collective.ALL_REDUCE, 1e9) == pytest.approx(40e-6 + 1.5 * 1e9 / CROSSING)
    assert price(H100, apart, Collective.ALL_TO_ALL, 1e9) == pytest.approx(20e-6 + 0.75 * 1e9 / CROSSING)
    assert price(H100, apart, Collective.SEND, 1e9) == pytest.approx(10e-6 + 1e9 / CROSSING)
    assert price(H100, apart, Collective.ALL_REDUCE, 1e6) > 2 * price(H100, inside(4), Collective.ALL_REDUCE, 1e6)


def test_two_levels_add_up() -> None:
    both = place_group(ONE_LINE, 32, 32, 1)
    n, rate = 1e9, 0.5 * 4**0.25 * 450e9
    # Reduce-scatter and all-gather inside, then 1/8 of the buffer over each of the 8 cards of a node.
    expected = 22e-6 + 2 * 7 / 8 * n / rate + 2 * 2 * 10e-6 + 2 * 3 / 4 * n / (8 * CROSSING)
    assert price(ONE_LINE, both, Collective.ALL_REDUCE, n) == pytest.approx(expected)
    # All-to-all: the slower of the two levels.
    assert price(ONE_LINE, both, Collective.ALL_TO_ALL, n) == pytest.approx(42e-6 + 3 / 4 * n / CROSSING)


def test_a_message_is_one_line() -> None:
    exchange = H100.collectives.all_to_all
    expected = exchange[0].latency_us * 1e-6 + 1e6 / (exchange[-1].efficiency * 450e9)
    assert price(H100, inside(2), Collective.SEND, 1e6) == pytest.approx(expected)
    for group in (inside(2), place_group(H100, 32, 2, 8)):
        lines = regimes(H100, group)[Collective.SEND]
        assert (lines == lines[0]).all()


def test_reduction_in_the_switches() -> None:
    sharp = msgspec.structs.replace(H100, scale_out=msgspec.structs.replace(OUT, in_network_reduction=True))
    apart = place_group(H100, 32, 4, 8)
    plain, faster = (price(each, apart, Collective.ALL_REDUCE, 1e9) - 40e-6 for each in (H100, sharp))
    assert plain / faster == pytest.approx(SHARP_GAIN)
    assert price(sharp, apart, Collective.ALL_GATHER, 1e9) == price(H100, apart, Collective.ALL_GATHER, 1e9)


def test_a_pair_of_a_full_mesh_uses_one_link() -> None:
    mesh = load_cluster("mi300x-8")
    assert device_rate(mesh.scale_up, 2) == 64e9
    assert device_rate(mesh.scale_up, 8) == 7 * 64e9
    assert device_rate(H100.scale_up, 2) == device_rate(H100.scale_up, 8) == 450e9
    assert price(mesh, inside(2, mesh), Collective.ALL_REDUCE, 1e9) >= 1e9 / 64e9


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


def test_above_the_block_only_what_crosses_it_pays() -> None:
    tree = load_cluster("h100-oversub-256")  # blocks of 8 nodes, four times oversubscribed
    nodes = place_group(tree, 128, 16, 8)  # one rank in each of 16 nodes
    n = 1e9
    # Over the 8 nodes of a block, then 1/8 of it between the 2 blocks at a quarter of the rate.
    gather = 7 / 8 * n / CROSSING + 1 / 2 * n / (8 * CROSSING / 4)
    assert price(tree, nodes, Collective.ALL_GATHER, n) == pytest.approx(40e-6 + gather)
    assert price(tree, nodes, Collective.ALL_TO_ALL, n) == pytest.approx(40e-6 + 1 / 2 * n / (CROSSING / 4))
    block = place_group(tree, 64, 8, 8)
    assert price(tree, block, Collective.ALL_GATHER, n) == price(
        load_cluster("h100x256"), block, Collective.ALL_GATHER, n
    )


def test_a_dragonfly_takes_the_slowest_of_its_levels() -> None:
    dragonfly = load_cluster("h100-dragonfly-256")  # 8 groups of 4 nodes
    injection = 50e9 * 0.85
    apart = place_group(dragonfly, 256, 32, 8)
    # 4 global links of 50 GB/s for the 8 devices of a router; 7/8 of an all-to-all leaves a group.
    assert price(dragonfly, apart, Collective.ALL_TO_ALL, 1e9) == pytest.approx(
        50e-6 + 7 / 8 * 1e9 / (injection * 4 / 8)
    )
    near = place_group(dragonfly, 32, 4, 8)
    assert price(dragonfly, near, Collective.ALL_TO_ALL, 1e9) == pytest.approx(20e-6 + 3 / 4 * 1e9 / injection)


GROUPS = [
    place_group(H100, 32, size, stride) for size in (2, 4, 8, 16, 32) for stride in (1, 2, 8) if size * stride <= 32
]


@given(
    st.sampled_from(GROUPS),
    st.sampled_from(list(Collective)),
    st.sampled_from([None, "trtllm", "vllm", "sglang"]),
    st.floats(0, 1e10),
    st.floats(1, 10),
)
def test_time_rises_with_bytes(group: Group, kind: Collective, library: str | None, n: float, factor: float) -> None:
    assert price(H100, group, kind, n, library) <= price(H100, group, kind, n * factor, library)


@pytest.mark.parametrize("name", ["a100x8", "h100x8", "b200x8", "gb200x72", "l40sx8", "mi300x-8", "ascend-910c-384"])
def test_no_collective_beats_its_wire_bytes(name: str) -> None:
    cluster = load_cluster(name)
    for p in (2, 4, 8, cluster.scale_up.size):
        rate = device_rate(cluster.scale_up, p)
        for kind in (Collective.ALL_REDUCE, *EXCHANGES):
            wire = (p - 1) / p * (2 if kind is Collective.ALL_REDUCE else 1) / rate
            for library in (None, *cluster.collectives.custom_all_reduce):
                table = regimes(cluster, inside(p, cluster), library)[kind]
                assert (table[:, 1] >= wire * (1 - 1e-9)).all()


@given(st.floats(1, 1e9), st.sampled_from([None, "trtllm", "vllm", "sglang"]))
def test_steps_over_the_factors_of_a_node_gain_little(n: float, library: str | None) -> None:
    for a, b in ((2, 2), (2, 4), (4, 2)):
        steps = price(H100, place_group(H100, 8, a, b), Collective.ALL_REDUCE, n, library)
        steps += price(H100, place_group(H100, 8, b, 1), Collective.ALL_REDUCE, n, library)
        assert price(H100, inside(a * b), Collective.ALL_REDUCE, n, library) <= 1.16 * steps
