from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.groups import Group, TorusAxis, place_group
from lts_bench.specs.cluster import load_cluster

NODES = load_cluster("h100x32")


def test_a_group_within_a_node_crosses_nothing() -> None:
    assert place_group(NODES, stage=8, size=4, stride=2) == Group(size=4, local=4, domains=1, span=7)


def test_one_rank_a_node_has_no_partner_inside() -> None:
    # 32 devices in nodes of 8: ranks 0, 8, 16, 24.
    assert place_group(NODES, stage=32, size=4, stride=8) == Group(size=4, local=1, domains=4, span=25)


def test_consecutive_ranks_fill_nodes() -> None:
    group = place_group(NODES, stage=32, size=16, stride=1)
    assert (group.local, group.domains) == (8, 2)


def test_the_worst_instance_counts_where_nodes_are_cut_unevenly() -> None:
    # A stage of 24 in nodes of 8, groups of 6: ranks 0-5 stay inside, 6-11 cross.
    assert place_group(NODES, stage=24, size=6, stride=1).domains == 2


def test_local_span_counts_the_strides_inside_a_domain() -> None:
    assert place_group(NODES, stage=8, size=4, stride=2).local_span == 7
    assert place_group(NODES, stage=32, size=4, stride=8).local_span == 1
    assert place_group(NODES, stage=32, size=16, stride=2).local_span == 7


TORUS = load_cluster("tpu-v5p-4x4x8")  # axes filled from the last: 8, 4, 4


@pytest.mark.parametrize(
    ("size", "stride", "axes"),
    [
        (4, 1, (TorusAxis(4, 1, False),)),  # half of the axis of 8: no ring
        (8, 1, (TorusAxis(8, 1, True),)),
        (32, 1, (TorusAxis(8, 1, True), TorusAxis(4, 1, True))),
        (4, 2, (TorusAxis(4, 2, True),)),  # every second device of the whole axis
        (4, 8, (TorusAxis(4, 1, True),)),  # the second axis, one step each
        (8, 8, (TorusAxis(4, 1, True), TorusAxis(2, 1, False))),
        (16, 4, (TorusAxis(2, 4, True), TorusAxis(4, 1, True), TorusAxis(2, 1, False))),
    ],
)
def test_torus_axes(size: int, stride: int, axes: tuple[TorusAxis, ...]) -> None:
    assert place_group(TORUS, 128, size, stride).torus == axes


def test_wrap_needs_the_published_multiple() -> None:
    odd = msgspec.structs.replace(
        TORUS, scale_up=msgspec.structs.replace(TORUS.scale_up, shape=(4, 4, 6), size=96), devices=96
    )
    assert place_group(odd, 96, 6, 1).torus == (TorusAxis(6, 1, False),)


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([1, 2, 4, 8, 16]))
def test_local_times_domains_covers_the_group(size: int, stride: int) -> None:
    if size * stride <= 32:
        group = place_group(NODES, 32, size, stride)
        assert group.local * group.domains >= group.size
        assert group.local <= 8
        assert group.domains == max(-(-(size * stride) // 8) if stride <= 8 else size, 1)
