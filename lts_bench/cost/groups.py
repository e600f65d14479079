"""Where the devices of a group lie on the cluster, priced by the group's worst instance."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lts_bench.space.placement import domain_size
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.topology import ScaleUp


class TorusAxis(NamedTuple):
    """The part of a physical torus axis that a group spans: devices, step between them, whether the ring closes."""

    devices: int
    stride: int
    wrapped: bool


class Group(NamedTuple):
    """Devices that communicate.

    Attributes:
        size: devices.
        local: devices of the group in one scale-up domain.
        domains: domains it crosses.
        span: devices from the first to the last, idle ones in between included.
        torus: the physical axes spanned, on a torus.
    """

    size: int
    local: int
    domains: int
    span: int
    torus: tuple[TorusAxis, ...] = ()

    @property
    def local_span(self) -> int:
        """Devices from the first to the last one in a domain."""
        stride = (self.span - 1) // max(self.size - 1, 1)
        return (self.local - 1) * stride + 1


def place_group(cluster: Cluster, stage: int, size: int, stride: int) -> Group:
    """The worst of the groups of ``size`` devices, ``stride`` apart, of a stage of ``stage`` devices."""
    domain = domain_size(cluster)
    local, domains = (size, 1) if stage <= domain else _crossings(stage, size, stride, domain)
    span = (size - 1) * stride + 1
    torus = _torus_axes(cluster.scale_up, local, stride) if cluster.scale_up.kind == "torus" else ()
    return Group(size, local, domains, span, torus)


@lru_cache(maxsize=100_000)
def _crossings(stage: int, size: int, stride: int, domain: int) -> tuple[int, int]:
    """(devices per domain, domains) of the instance that crosses most; the stage starts on a domain's boundary."""
    ranks = np.arange(stage // (size * stride) * size * stride).reshape(-1, size, stride)
    home = ranks // domain
    domains = int((1 + (np.diff(home, axis=1) > 0).sum(axis=1)).max())
    return -(-size // domains), domains


def _torus_axes(scale_up: ScaleUp, size: int, stride: int) -> tuple[TorusAxis, ...]:
    """Factors fill the physical axes from the last to the first; a partial axis has no wrap-around."""
    axes: list[TorusAxis] = []
    inner = 1
    for length in reversed(scale_up.shape or ()):
        step = max(stride // inner, 1)
        extent = min(-(-size * stride // inner), length)
        devices = -(-extent // step)
        if step < length and devices > 1:
            wrapped = extent == length and length % scale_up.wrap_multiple == 0
            axes.append(TorusAxis(devices, step, wrapped))
        inner *= length
    return tuple(axes)
