"""What a collective costs: for every kind and group the least of affine regimes, ``latency + bytes · inverse rate``.

n is the all-reduce buffer, the reduce-scatter input, the all-gather output, the local all-to-all buffer or the bytes
sent point to point. Formulas: nccl-tests PERFORMANCE.md, Thakur et al. 2005, "How to Scale Your Model".
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.groups import Group
from lts_bench.cost.kernels import US
from lts_bench.cost.levels import crossing_levels, crossing_seconds
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.collectives import REGIMES, Collectives, Regime
from lts_bench.specs.topology import ScaleUp

FloatArray = NDArray[np.float64]
SHARP_GAIN = 1.3
"""All-reduce in the switches against the plain one, in practice ("How to Scale Your Model")."""


class Collective(IntEnum):
    """Kinds of communication."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    ALL_TO_ALL = 3
    SEND = 4

    @property
    def label(self) -> str:
        """The name in words."""
        return self.name.lower().replace("_", "-")


def regimes(cluster: Cluster, group: Group, library: str | None = None) -> FloatArray:
    """(kinds, regimes, 2) latency in seconds and seconds per byte of every kind of collective of a group.

    Args:
        cluster: the networks and their constants.
        group: devices that communicate.
        library: whose all-reduce kernels are used; None, an unknown one or a group out of its reach for the vendor's.
    """
    table = np.zeros((len(Collective), REGIMES, 2))
    if group.size == 1:
        return table
    constants = cluster.collectives
    if group.torus:
        table = _torus(cluster.scale_up, constants, group)
    elif group.local > 1:
        table = _inside(cluster.scale_up, constants, group.local, _all_reduce(constants, group, library))
    if group.domains > 1:
        _cross(table, cluster, group)
    return table


def seconds(table: FloatArray, kind: Collective, n: FloatArray) -> FloatArray:
    """Time of ``kind`` on ``n`` bytes; ``table`` is (…, kinds, regimes, 2) and n (…, phases)."""
    return least(table[..., kind, :, :], n)


def least(lines: FloatArray, n: FloatArray) -> FloatArray:
    """Least of the regimes, (…, regimes, 2), at ``n`` bytes, (…, phases)."""
    first, *others = range(lines.shape[-2])
    time: FloatArray = _line(lines, first, n)
    for regime in others:
        np.minimum(time, _line(lines, regime, n), out=time)
    return time


def _line(lines: FloatArray, regime: int, n: FloatArray) -> FloatArray:
    """One of the regimes at ``n`` bytes."""
    time = n * lines[..., regime, 1, None]
    time += lines[..., regime, 0, None]
    return time


def device_rate(scale_up: ScaleUp, devices: int) -> float:
    """Bytes/s and direction a device injects within a group: all links of a switch, a mesh's links to its peers."""
    return scale_up.bytes_per_s * (devices - 1 if scale_up.kind == "full_mesh" else 1)


def efficiency(regime: Regime, devices: int) -> float:
    """Share of the rate that a group of so many devices reaches."""
    return min(regime.efficiency * math.pow(devices / 2, regime.efficiency_growth), 1.0)


def _all_reduce(constants: Collectives, group: Group, library: str | None) -> tuple[Regime, ...]:
    custom = constants.custom_all_reduce.get(library or "")
    if custom is None or group.domains > 1 or (custom.devices is not None and group.local_span > custom.devices):
        return constants.all_reduce
    return custom.regimes


def _filled(pieces: list[tuple[float, float]]) -> FloatArray:
    """(regimes, 2) of up to so many regimes; the last one is repeated."""
    return np.array(pieces + pieces[-1:] * (REGIMES - len(pieces)))


def _lines(regimes: tuple[Regime, ...], devices: int, volume: float, rate: float) -> FloatArray:
    """(regimes, 2) of a collective that moves ``volume`` of its bytes at shares of ``rate``."""
    return _filled(
        [
            (
                (each.latency_us + each.latency_per_device_us * (devices - 2)) * US,
                volume / (efficiency(each, devices) * rate),
            )
            for each in regimes
        ]
    )


def _inside(scale_up: ScaleUp, constants: Collectives, p: int, all_reduce: tuple[Regime, ...]) -> FloatArray:
    """Groups of p devices in one domain: the volumes of a two-shot all-reduce and of pairwise exchanges.

    A message between two devices is one line: the latency of a small exchange, the rate of a large one.
    """
    rate, share = device_rate(scale_up, p), (p - 1) / p
    gather, exchange = constants.all_gather, constants.all_to_all
    table = np.zeros((len(Collective), REGIMES, 2))
    table[Collective.ALL_REDUCE] = _lines(all_reduce, p, 2 * share, rate)
    table[Collective.REDUCE_SCATTER] = table[Collective.ALL_GATHER] = _lines(gather, p, share, rate)
    table[Collective.ALL_TO_ALL] = _lines(exchange, p, share, rate)
    table[Collective.SEND] = [
        exchange[0].latency_us * US,
        1 / (efficiency(exchange[-1], 2) * device_rate(scale_up, 2)),
    ]
    return table


def _torus(scale_up: ScaleUp, constants: Collectives, group: Group) -> FloatArray:
    """Rings of both directions on every spanned axis at once; strided groups share the links of their axis.

    All-gather n(p−1)/(p·Σ rates), latency Σ hops; all-to-all max n·a/(8·rate) (4 without wrap-around).
    """
    link = scale_up.bytes_per_s
    rates = [(2 if axis.wrapped else 1) * link / axis.stride for axis in group.torus]
    hops = sum((axis.devices / 2 if axis.wrapped else axis.devices - 1) * axis.stride for axis in group.torus)
    share = (group.size - 1) / group.size / sum(rates)
    slowest = max(axis.devices * axis.stride / ((8 if axis.wrapped else 4) * link) for axis in group.torus)

    def lines(regimes: tuple[Regime, ...], steps: float, inverse_rate: float) -> FloatArray:
        return _filled([(steps * each.latency_us * US, inverse_rate / each.efficiency) for each in regimes])

    table = np.zeros((len(Collective), REGIMES, 2))
    table[Collective.ALL_REDUCE] = lines(constants.all_reduce, 2 * hops, 2 * share)
    table[Collective.REDUCE_SCATTER] = table[Collective.ALL_GATHER] = lines(constants.all_gather, hops, share)
    table[Collective.ALL_TO_ALL] = lines(constants.all_to_all, hops, slowest)
    table[Collective.SEND] = lines(constants.all_to_all, hops, 1 / min(rates))[-1]
    return table


def _cross(table: FloatArray, cluster: Cluster, group: Group) -> None:
    """Add the steps between domains of ``g`` devices each to the table of the steps inside them.

    Reduce-scatter inside, then over each level between the domains of equal local ranks, all-gather back; an
    all-to-all goes over all levels at once, and the one that binds counts.
    """
    scale_out = cluster.scale_out
    assert scale_out is not None
    levels = crossing_levels(cluster, group)
    latency = sum(math.log2(level.count) for level in levels) * scale_out.latency_us * US
    gathered, held = 0.0, float(group.local)
    for level in levels:
        gathered += (level.count - 1) / level.count / (held * level.bytes_per_s)
        held *= level.count
    reduced = 2 * gathered / (SHARP_GAIN if scale_out.in_network_reduction else 1)
    table[Collective.ALL_REDUCE] += [2 * latency, reduced]
    for kind in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER):
        table[kind] += [latency, gathered]
    exchange = table[Collective.ALL_TO_ALL]
    exchange[:, 0] += latency
    exchange[:, 1] = np.maximum(exchange[:, 1] / group.domains, crossing_seconds(cluster, group))
    table[Collective.SEND] = [scale_out.latency_us * US, 1 / levels[-1].bytes_per_s]
