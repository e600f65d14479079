"""Pipeline stages: which differ from each other, and what their boundaries cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, regimes
from lts_bench.cost.conversion import canonical_layout, local_bytes
from lts_bench.cost.edges import MeshPrices
from lts_bench.cost.groups import Group, place_group
from lts_bench.space.operators import Operator
from lts_bench.space.placement import domain_size, stages_per_domain
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster

FloatArray = NDArray[np.float64]


def stage_classes(counts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Distinct stages as (how many, count of each block…), in order of appearance."""
    return [(many, *row) for row, many in Counter(counts).items()]


def crossings(cluster: Cluster, degrees: Degrees) -> tuple[int, int]:
    """(boundaries inside a domain, boundaries between domains) of the pipeline that crosses most."""
    boundaries = degrees.pp - 1
    per_domain = stages_per_domain(degrees.stage, domain_size(cluster))
    if per_domain == 0:
        return 0, boundaries
    starts = {(replica * degrees.pp) % per_domain for replica in range(min(degrees.replicas, per_domain))}
    between = max((start + boundaries) // per_domain for start in starts)
    return boundaries - between, between


def send_seconds(prices: MeshPrices, stream: Operator, pairs: Sequence[object]) -> FloatArray:
    """(pairs, stream choices, phases) time of all boundaries; a pair is (mesh row, (inside, between))."""
    cluster, stage_span = prices.setting.cluster, domain_size(prices.setting.cluster)
    inside = regimes(cluster, _neighbours(cluster))[Collective.SEND, 0]
    between = regimes(cluster, Group(2, 1, 2, stage_span + 1))[Collective.SEND, 0]
    tensor = prices.activation(prices.setting.model.hidden)
    local = np.stack(
        [local_bytes(prices.mesh, canonical_layout(choice), tensor) for choice in prices.view(stream).choices], axis=1
    )
    rows = np.array([row for row, _ in pairs])  # type: ignore[misc]
    counts = np.array([count for _, count in pairs], dtype=np.float64)  # type: ignore[misc]
    latency = counts @ np.array([inside[0], between[0]])
    inverse_rate = counts @ np.array([inside[1], between[1]])
    time: FloatArray = latency[:, None, None] + inverse_rate[:, None, None] * local[rows]
    return time


def _neighbours(cluster: Cluster) -> Group:
    return place_group(cluster, min(2, domain_size(cluster)), min(2, domain_size(cluster)), 1)
