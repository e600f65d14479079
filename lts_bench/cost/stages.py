"""Pipeline stages: which differ from each other, and what their boundaries cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, regimes
from lts_bench.cost.conversion import canonical_layout, local_bytes
from lts_bench.cost.edges import MeshPrices
from lts_bench.cost.groups import Group, place_group
from lts_bench.cost.rows import distinct
from lts_bench.space.operators import Operator
from lts_bench.space.placement import domain_size, stages_per_domain
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster

FloatArray = NDArray[np.float64]
Crossings = tuple[int, int, int]


def heaviest_stages(counts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The distinct stages that may be the heaviest: those that no other holds all blocks of, in order of appearance."""
    stages = list(dict.fromkeys(counts))
    return [
        row
        for row in stages
        if not any(other != row and all(x >= y for x, y in zip(other, row, strict=True)) for other in stages)
    ]


def crossings(cluster: Cluster, degrees: Degrees) -> Crossings:
    """(boundaries inside a domain, boundaries between domains, devices of a step inside) of the worst pipeline.

    Devices of neighbouring stages are a stage apart, which matters on a torus alone.
    """
    boundaries = degrees.pp - 1
    per_domain = stages_per_domain(degrees.stage, domain_size(cluster))
    if per_domain == 0:
        return 0, boundaries, 1
    starts = {(replica * degrees.pp) % per_domain for replica in range(min(degrees.replicas, per_domain))}
    between = max((start + boundaries) // per_domain for start in starts)
    step = degrees.stage if cluster.scale_up.kind == "torus" else 1
    return boundaries - between, between, step


def send_seconds(prices: MeshPrices, stream: Operator, pairs: Sequence[tuple[int, Crossings]]) -> FloatArray:
    """(pairs, stream choices, phases) time of all boundaries; a pair is (mesh row, crossings)."""
    tensor = prices.activation(prices.setting.model.hidden)
    local = np.stack(
        [local_bytes(prices.mesh, canonical_layout(choice), tensor) for choice in prices.view(stream).choices], axis=1
    )
    rows = np.array([row for row, _ in pairs])
    counts, row = distinct(count for _, count in pairs)
    sends = np.array([_send(prices.setting.cluster, *count) for count in counts])[row]
    time: FloatArray = sends[:, 0, None, None] + sends[:, 1, None, None] * local[rows]
    return time


def _send(cluster: Cluster, inside: int, between: int, step: int) -> FloatArray:
    """(latency, seconds per byte) of all boundaries together."""
    domain = domain_size(cluster)
    price = np.zeros(2)
    if inside:
        price += inside * regimes(cluster, place_group(cluster, domain, 2, step))[Collective.SEND, 0]
    if between:
        price += between * regimes(cluster, Group(2, 1, 2, domain + 1))[Collective.SEND, 0]
    return price
