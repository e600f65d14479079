"""Routed tokens on their way to the experts and back, in the two ways of expert-parallel libraries (DeepEP).

Low latency: every copy goes straight to its expert's device. Normal: one copy to every domain that holds one of the
token's experts, and inside it one to every such device.
"""

from __future__ import annotations

from math import log2
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, device_rate, regimes
from lts_bench.cost.groups import Group
from lts_bench.cost.kernels import US
from lts_bench.cost.levels import crossing_seconds
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.collectives import REGIMES, Exchange, ExchangeMode

FloatArray = NDArray[np.float64]
Mode = Literal["low_latency", "normal"]
Direction = Literal["dispatch", "combine"]
MODES: tuple[Mode, ...] = ("low_latency", "normal")
DIRECTIONS: tuple[Direction, ...] = ("dispatch", "combine")
SCALE_BYTES = 4 / 128
"""Bytes for each element of one byte or less: a scale for every 128 of them."""


def dispatched_bytes(hidden: int, element_bytes: float) -> float:
    """Bytes of one token on its way to an expert."""
    return hidden * (element_bytes + (SCALE_BYTES if element_bytes <= 1 else 0.0))


def copies(group: Group, mode: Mode, top_k: float) -> tuple[float, float]:
    """(inside domains, between domains) copies of a token that a device sends to others; routing is uniform.

    Low latency: k·(1 − 1/p) in all, k·(1 − 1/m) of them across m domains. Normal: (m − 1)·(1 − (1 − 1/m)^k) across,
    and one to each distinct device inside the domains, those of the forwarding devices aside.
    """
    p, m = group.size, group.domains
    if mode == "low_latency":
        return top_k * (1 / m - 1 / p), top_k * (1 - 1 / m)
    return (p - m) * (1 - (1 - 1 / p) ** top_k), (m - 1) * (1 - (1 - 1 / m) ** top_k)


def exchange(cluster: Cluster, group: Group, mode: Mode, direction: Direction, top_k: float) -> FloatArray:
    """(regimes, 2) latency in seconds and seconds per byte of a device's tokens, each counted once.

    Without constants of an exchange it is an all-to-all of the copies.
    """
    if group.size == 1:
        return np.zeros((REGIMES, 2))
    sent = copies(group, mode, top_k)
    known = cluster.collectives.expert_exchange
    if known is None:
        buffer = sum(sent) * group.size / (group.size - 1)
        table: FloatArray = regimes(cluster, group)[Collective.ALL_TO_ALL] * [1, buffer]
        return table
    constants: ExchangeMode = getattr(known, mode)
    return exchange_regimes(cluster, group, getattr(constants, direction), sent, constants.sms)


def exchange_regimes(
    cluster: Cluster, group: Group, constants: Exchange, sent: tuple[float, float], sms: int
) -> FloatArray:
    """(regimes, 2) of one direction's own constants, for so many copies inside and between domains."""
    inside, between = sent
    rate = constants.efficiency * device_rate(cluster.scale_up, group.local)
    if constants.bytes_per_s_per_sm is not None:
        rate = min(rate, sms * constants.bytes_per_s_per_sm)
    per_byte = max(inside / rate, between * _crossing_seconds(cluster, group, constants))
    doublings = log2(group.domains)
    lines = [
        ((each.latency_us + each.latency_per_doubling_us * doublings) * US, each.slowdown * per_byte)
        for each in constants.regimes
    ]
    return np.array(lines + lines[-1:] * (REGIMES - len(lines)))


def _crossing_seconds(cluster: Cluster, group: Group, constants: Exchange) -> float:
    """Seconds per byte that leaves a device's domain; the efficiency was measured over 2, 4, 8, … domains."""
    if group.domains == 1:
        return 0.0
    assert cluster.scale_out is not None
    measured = constants.crossing_efficiency
    reached = float(np.interp(log2(group.domains), range(1, len(measured) + 1), measured))
    per_buffer_byte = crossing_seconds(cluster, group) * cluster.scale_out.efficiency / reached
    return per_buffer_byte * group.domains / (group.domains - 1)
