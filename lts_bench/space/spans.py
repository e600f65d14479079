"""On which level of the cluster the devices of each parallel group lie."""

from __future__ import annotations

from typing import NamedTuple

from lts_bench.space.placement import stages_per_domain
from lts_bench.space.strategy import Degrees

SCALE_UP, SCALE_OUT = "scale-up", "scale-out"


class Span(NamedTuple):
    """A degree and where the devices lie that it joins.

    Attributes:
        name: the degree, as in `Degrees`.
        size: its value.
        level: ``scale-up`` where each such group lies in one domain, else ``scale-out``; empty for a group of one
            device, for replicas, which don't communicate, and where no cluster is known.
    """

    name: str
    size: int
    level: str


def spans(degrees: Degrees, domain: int | None = None) -> tuple[Span, ...]:
    """Return the span of every degree, in the order of `Degrees`.

    Args:
        degrees: of a strategy that the cluster holds.
        domain: devices of a scale-up domain of the cluster, None where no cluster is known.
    """
    strides = {"dp": degrees.tp, "tx": degrees.ty, "ty": 1, "ep": degrees.etp, "etp": 1}
    crossing = {"replicas": False, "pp": False} | dict.fromkeys(strides, False)
    if domain is not None:
        crossing["pp"] = _pipeline_crosses(degrees, domain)
        for name, stride in strides.items():
            crossing[name] = group_crosses(degrees.stage, getattr(degrees, name), stride, domain)
    return tuple(_span(name, getattr(degrees, name), domain, crosses=crosses) for name, crosses in crossing.items())


def _span(name: str, size: int, domain: int | None, *, crosses: bool) -> Span:
    silent = size == 1 or name == "replicas" or domain is None
    return Span(name, size, "" if silent else SCALE_OUT if crosses else SCALE_UP)


def group_crosses(stage: int, size: int, stride: int, domain: int) -> bool:
    """Whether some group of ``size`` devices, ``stride`` apart, lies in more than one domain.

    A stage of ``stage`` devices lies in a domain where it fits, else it starts on a domain's boundary. Groups fill it
    in blocks of ``size * stride`` consecutive devices: a boundary that cuts a block cuts a group.
    """
    return size > 1 and stage > domain and domain % (size * stride) != 0


def _pipeline_crosses(degrees: Degrees, domain: int) -> bool:
    """Whether some pipeline has stages in more than one domain; domains hold whole stages where these fit."""
    held = stages_per_domain(degrees.stage, domain)
    return degrees.pp > 1 and (held == 0 or (held < degrees.replicas * degrees.pp and held % degrees.pp != 0))
