"""The run id: what makes two runs the same."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec


def run_id(
    *,
    task: str,
    task_digest: str,
    space_digest: str,
    cost_model: str,
    instance: int,
    agent: str,
    version: str,
    parameters: dict[str, Any],
    track: str,
    seed: int,
    budget: str,
) -> str:
    """Digest all that a cell's outcome depends on; neither isolation nor time limit is part of it."""
    identity = {
        "task": [task, task_digest, space_digest, cost_model],
        "instance": instance,
        "agent": f"{agent}@{version}",
        "parameters": parameters,
        "track": track,
        "seed": seed,
        "budget": budget,
    }
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
