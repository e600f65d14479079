"""What a collective costs: for every kind and group the lesser of affine regimes, ``latency + bytes · inverse rate``.

n is the all-reduce buffer, the reduce-scatter input, the all-gather output, the local all-to-all buffer or the bytes
sent point to point. Formulas: nccl-tests PERFORMANCE.md, Thakur et al. 2005, "How to Scale Your Model".
"""

from __future__ import annotations

from enum import IntEnum
from math import log2

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.groups import Group
from lts_bench.cost.kernels import US
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.topology import Regimes, ScaleOut, ScaleUp

FloatArray = NDArray[np.float64]
REGIMES = 2


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


def regimes(cluster: Cluster, group: Group) -> FloatArray:
    """(kinds, regimes, 2) latency in seconds and seconds per byte of every kind of collective of a group."""
    table = np.zeros((len(Collective), REGIMES, 2))
    if group.size == 1:
        return table
    scale_up = cluster.scale_up
    inside = _torus(scale_up, group) if group.torus else _inside(scale_up, group)
    table[:] = inside
    if group.domains > 1 and cluster.scale_out is not None:
        _cross(table, crossing_rate(cluster, group), cluster.scale_out.latency_us * US, group)
    return table


def seconds(table: FloatArray, kind: Collective, n: FloatArray) -> FloatArray:
    """Time of ``kind`` on ``n`` bytes; ``table`` is (…, kinds, regimes, 2) and n (…, phases)."""
    pieces = table[..., kind, :, :]
    latency, inverse_rate = pieces[..., None, :, 0], pieces[..., None, :, 1]
    time: FloatArray = (latency + n[..., None] * inverse_rate).min(axis=-1)
    return time


def device_rate(scale_up: ScaleUp, devices: int) -> float:
    """Bytes/s and direction a device injects within a group: all links of a switch, a mesh's links to its peers."""
    return scale_up.bytes_per_s * (devices - 1 if scale_up.kind == "full_mesh" else 1)


def _latency(regime: Regimes, devices: int) -> float:
    return (regime.latency_us + regime.latency_per_doubling_us * max(log2(devices) - 1, 0)) * US


def _inside(scale_up: ScaleUp, group: Group) -> FloatArray:
    """Groups inside one domain: the volumes of a two-shot all-reduce and of pairwise exchanges in both regimes.

    Where low-latency all-reduces do not reach, small ones are a reduce-scatter and an all-gather.
    """
    table = np.zeros((len(Collective), REGIMES, 2))
    p = group.local
    if p == 1:
        return table
    rate = device_rate(scale_up, p)
    share = (p - 1) / p
    reduce, gather, exchange = scale_up.all_reduce, scale_up.all_gather, scale_up.all_to_all
    table[Collective.ALL_REDUCE] = [
        [_latency(reduce, p), 2 * share / (reduce.efficiency * rate)],
        [reduce.large_latency_us * US, 2 * share / (reduce.large_efficiency * rate)],
    ]
    for kind, regime in (
        (Collective.REDUCE_SCATTER, gather),
        (Collective.ALL_GATHER, gather),
        (Collective.ALL_TO_ALL, exchange),
    ):
        table[kind] = [
            [_latency(regime, p), share / (regime.efficiency * rate)],
            [regime.large_latency_us * US, share / (regime.large_efficiency * rate)],
        ]
    if scale_up.low_latency_devices is not None and group.local_span > scale_up.low_latency_devices:
        table[Collective.ALL_REDUCE, 0] = 2 * table[Collective.ALL_GATHER, 0]
    table[Collective.SEND] = [_latency(exchange, 2), 1 / (exchange.large_efficiency * device_rate(scale_up, 2))]
    return table


def _torus(scale_up: ScaleUp, group: Group) -> FloatArray:
    """Rings of both directions on every spanned axis at once; strided groups share the links of their axis.

    All-gather n(p−1)/(p·Σ rates), latency Σ hops; all-to-all max n·a/(8·rate) (4 without wrap-around).
    """
    gather, link = scale_up.all_gather, scale_up.bytes_per_s
    hop = gather.latency_us * US
    rates = [(2 if axis.wrapped else 1) * link / axis.stride for axis in group.torus]
    hops = sum((axis.devices / 2 if axis.wrapped else axis.devices - 1) * axis.stride for axis in group.torus)
    volume = (group.size - 1) / group.size / (sum(rates) * gather.large_efficiency)
    slowest = max(
        axis.devices * axis.stride / ((8 if axis.wrapped else 4) * link * gather.large_efficiency)
        for axis in group.torus
    )
    table = np.zeros((len(Collective), REGIMES, 2))
    table[Collective.ALL_REDUCE] = [2 * hops * hop, 2 * volume]
    table[Collective.REDUCE_SCATTER] = table[Collective.ALL_GATHER] = [hops * hop, volume]
    table[Collective.ALL_TO_ALL] = [hops * hop, slowest]
    table[Collective.SEND] = [hops * hop, 1 / (min(rates) * gather.large_efficiency)]
    return table


def crossing_rate(cluster: Cluster, group: Group) -> float:
    """Bytes/s and direction per device between domains: injection, less where an upper level is oversubscribed."""
    scale_out = cluster.scale_out
    assert scale_out is not None
    rate = scale_out.bytes_per_s * scale_out.efficiency
    if scale_out.block_devices is not None and group.span > scale_out.block_devices:
        rate /= scale_out.oversubscription
    if scale_out.kind == "dragonfly" and scale_out.groups and group.span > cluster.devices / scale_out.groups:
        rate = min(rate, _global_rate(scale_out))
    return rate


def _global_rate(scale_out: ScaleOut) -> float:
    """A device's share of the global links between the groups of a dragonfly (Kim et al. 2008)."""
    assert scale_out.global_links and scale_out.global_bytes_per_s and scale_out.devices_per_router
    return scale_out.global_links * scale_out.global_bytes_per_s * scale_out.efficiency / scale_out.devices_per_router


def _cross(table: FloatArray, rate: float, step: float, group: Group) -> None:
    """Add the step between ``m`` domains of ``g`` devices to the table of the steps inside them.

    Reduce-scatter inside, exchange between the domains of equal local ranks, all-gather inside; ``rate`` is in bytes/s
    per device, ``step`` the seconds of latency.
    """
    g, m = group.local, group.domains
    doublings, share = log2(m), (m - 1) / m
    table[Collective.ALL_REDUCE] += [2 * doublings * step, 2 * share / (g * rate)]
    for kind in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER):
        table[kind] += [doublings * step, share / (g * rate)]
    exchange = table[Collective.ALL_TO_ALL]
    exchange[:, 0] += doublings * step
    exchange[:, 1] = np.maximum(exchange[:, 1] / m, share / rate)
    table[Collective.SEND] = [step, 1 / rate]
