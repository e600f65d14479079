"""The list of valid degrees of a task, the first decision of its space."""

from __future__ import annotations

from collections.abc import Iterator

from lts_bench.space.placement import domain_size, placeable_stages
from lts_bench.space.rules import divisors, experts_of, nests
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.model import Model

MAX_TP = 256
"""Widest tensor-parallel group of a space, as far as published inference layouts go (Pope et al., arXiv 2211.05102)."""

MAX_IDLE_SHARE = 0.2
"""Degrees that leave more of the cluster idle are not in the space; ``evaluate`` takes them all the same."""


def valid_degrees(model: Model, cluster: Cluster) -> tuple[Degrees, ...]:
    """All degrees of the space, sorted by (pp, dp, tp, tx, ep).

    Each degree divides the cluster or a scale-up domain, and tensor-parallel axes divide the hidden size: others split
    nothing but tokens. Replicas fill the cluster. One-axis groups are (1, tp).
    """
    sizes = sorted({*divisors(cluster.devices), *divisors(domain_size(cluster))})
    experts = experts_of(model)
    found = [
        degrees
        for tx, ty in _tensor_axes([size for size in sizes if model.hidden % size == 0])
        for dp in (sizes if experts else (1,))
        if dp * tx * ty <= cluster.devices
        for pp, replicas in _pipelines(sizes, len(model.layers), cluster, dp * tx * ty)
        for degrees in _expert_splits(replicas, pp, dp, tx, ty, experts)
    ]
    return tuple(sorted(found, key=lambda d: (d.pp, d.dp, d.tp, d.tx, d.ep)))


def _tensor_axes(sizes: list[int]) -> Iterator[tuple[int, int]]:
    for tx in sizes:
        for ty in sizes:
            if tx * ty <= MAX_TP and (tx == 1 or ty > 1):
                yield tx, ty


def _pipelines(sizes: list[int], layers: int, cluster: Cluster, stage: int) -> Iterator[tuple[int, int]]:
    stages = placeable_stages(cluster, stage)
    for pp in sizes:
        replicas = stages // pp
        if pp <= layers and replicas and replicas * pp * stage >= (1 - MAX_IDLE_SHARE) * cluster.devices:
            yield pp, replicas


def _expert_splits(replicas: int, pp: int, dp: int, tx: int, ty: int, experts: int) -> Iterator[Degrees]:
    stage = dp * tx * ty
    if not experts:
        yield Degrees(replicas, pp, 1, tx, ty, 1, stage)
        return
    for ep in divisors(experts):
        if stage % ep == 0 and nests(stage // ep, tx, ty, dp):
            yield Degrees(replicas, pp, dp, tx, ty, ep, stage // ep)
