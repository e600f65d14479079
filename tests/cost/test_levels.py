from __future__ import annotations

import pytest

from lts_bench.cost.groups import Group
from lts_bench.cost.levels import Level, crossing_levels, crossing_seconds
from lts_bench.specs.cluster import load_cluster

RATE = 50e9 * 0.9


def test_one_level_without_oversubscription() -> None:
    wide = load_cluster("h100x256")
    assert crossing_levels(wide, Group(32, 8, 4, 32)) == (Level(4, RATE),)
    assert crossing_seconds(wide, Group(32, 8, 4, 32)) == pytest.approx(3 / 4 / RATE)


def test_blocks_below_an_oversubscribed_level() -> None:
    tree = load_cluster("h100-oversub-256")  # blocks of 64 devices
    assert crossing_levels(tree, Group(8, 1, 8, 57)) == (Level(8, RATE),)
    assert crossing_levels(tree, Group(16, 1, 16, 121)) == (Level(8, RATE), Level(2, RATE / 4))
    # One rank in every block.
    assert crossing_levels(tree, Group(4, 1, 4, 193)) == (Level(4, RATE / 4),)
    assert crossing_seconds(tree, Group(16, 1, 16, 121)) == pytest.approx(max(15 / 16, 1 / 2 * 4) / RATE)


def test_groups_of_a_dragonfly() -> None:
    dragonfly = load_cluster("h100-dragonfly-256")  # 8 groups of 32 devices
    injection = 50e9 * 0.85
    assert crossing_levels(dragonfly, Group(4, 1, 4, 25)) == (Level(4, injection),)
    # 4 links of 50 GB/s for the 8 devices of a router.
    assert crossing_levels(dragonfly, Group(8, 1, 8, 57)) == (Level(4, injection), Level(2, injection * 4 / 8))
