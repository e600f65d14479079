"""The levels between the domains of a group: blocks below an oversubscribed level, groups of a dragonfly."""

from __future__ import annotations

from dataclasses import dataclass

from lts_bench.cost.groups import Group
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.topology import ScaleOut


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the scale-out network.

    Attributes:
        count: parts that communicate over it: domains of a block, or blocks.
        bytes_per_s: rate of a device and direction.
    """

    count: int
    bytes_per_s: float


def crossing_levels(cluster: Cluster, group: Group) -> tuple[Level, ...]:
    """Levels that a group of several domains crosses, innermost first; a level of one part is left out."""
    scale_out = cluster.scale_out
    assert scale_out is not None
    injection = _injection(scale_out)
    block, upper = _upper_level(cluster, scale_out)
    apart = (group.span - 1) // (group.domains - 1) if group.local == 1 else cluster.scale_up.size
    inside = min(max(block // apart, 1), group.domains)
    blocks = -(-group.domains // inside)
    levels = (Level(inside, injection), Level(blocks, min(injection, upper)))
    return tuple(level for level in levels if level.count > 1)


def crossing_seconds(cluster: Cluster, group: Group) -> float:
    """Seconds per byte of a device's all-to-all buffer: the injection, or the upper level for what crosses it."""
    assert cluster.scale_out is not None
    upper = crossing_levels(cluster, group)[-1]
    injected = (group.domains - 1) / group.domains / _injection(cluster.scale_out)
    return max(injected, (upper.count - 1) / upper.count / upper.bytes_per_s)


def _injection(scale_out: ScaleOut) -> float:
    return scale_out.bytes_per_s * scale_out.efficiency


def _upper_level(cluster: Cluster, scale_out: ScaleOut) -> tuple[int, float]:
    """(devices below the upper level, bytes/s of a device through it); a dragonfly's as of Kim et al. 2008."""
    if scale_out.kind == "dragonfly":
        assert scale_out.groups and scale_out.global_links and scale_out.global_bytes_per_s
        assert scale_out.devices_per_router
        links = scale_out.global_links * scale_out.global_bytes_per_s * scale_out.efficiency
        return cluster.devices // scale_out.groups, links / scale_out.devices_per_router
    return scale_out.block_devices or cluster.devices, _injection(scale_out) / scale_out.oversubscription
