"""A cluster as a YAML file."""

from __future__ import annotations

from typing import Any

import msgspec

from lts_bench.specs.chip import load_chip
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.failure import InputError


def cluster_yaml(cluster: Cluster, table: str, origin: str) -> str:
    """The text of a complete cluster file.

    Args:
        cluster: the cluster with its new constants.
        table: file that they were fitted to.
        origin: where all other values come from.
    """
    facts: dict[str, Any] = msgspec.to_builtins(cluster)
    if _is_built_in(cluster):
        facts["chip"] = cluster.chip.name
    kept = {key: value for key, value in facts.items() if value is not None}
    head = f"# refitted by lts-bench calibrate to {table}; what it does not tell is that of {origin}\n"
    return head + msgspec.yaml.encode(kept).decode()


def _is_built_in(cluster: Cluster) -> bool:
    try:
        return load_chip(cluster.chip.name) == cluster.chip
    except InputError:
        return False
