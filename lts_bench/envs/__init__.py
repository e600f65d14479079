"""Gymnasium environments of a task; importing this package registers them.

``gymnasium.make("lts_bench:lts/Shard-v0", task="NAME")`` decides one choice a step, ``lts/ShardOneShot-v0`` all at
once. ``gymnasium.make_vec("lts_bench:lts/Shard-v0", num_envs=32, vectorization_mode="vector_entry_point",
task="NAME")`` scores all episodes in one call. Each takes ``task=`` (a name or a task, no limit of evaluations) or
``problem=``.
"""

from __future__ import annotations

import gymnasium

from lts_bench.envs.one_shot import ShardOneShotEnv
from lts_bench.envs.sequential import ShardEnv, ShardVectorEnv

__all__ = ["ShardEnv", "ShardOneShotEnv", "ShardVectorEnv", "register"]


def register() -> None:
    """Register the environments that are not yet registered."""
    entry_points = {
        "lts/Shard-v0": ("lts_bench.envs:ShardEnv", "lts_bench.envs:ShardVectorEnv"),
        "lts/ShardOneShot-v0": ("lts_bench.envs:ShardOneShotEnv", None),
    }
    for env_id, (entry_point, vector_entry_point) in entry_points.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point=entry_point, vector_entry_point=vector_entry_point)


register()
