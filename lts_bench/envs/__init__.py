"""Gymnasium environments of tasks; importing this package registers them.

``gymnasium.make("lts_bench:lts/Shard-v0", task="NAME")`` decides one choice a step, ``lts/ShardOneShot-v0`` all at
once. ``gymnasium.make_vec("lts_bench:lts/Shard-v0", num_envs=32, vectorization_mode="vector_entry_point",
task="NAME")`` scores all episodes in one call. Each takes ``task=`` (a name or a task, no limit of evaluations),
``problem=``, or ``suite=`` for training across tasks.
"""

from __future__ import annotations

import gymnasium

from lts_bench.envs.masks import sample_choices
from lts_bench.envs.one_shot import ShardOneShotEnv, ShardOneShotVectorEnv
from lts_bench.envs.sequential import ShardEnv, ShardVectorEnv

__all__ = ["ShardEnv", "ShardOneShotEnv", "ShardOneShotVectorEnv", "ShardVectorEnv", "register", "sample_choices"]


def register() -> None:
    """Register the environments that are not yet registered."""
    for env_id, name in (("lts/Shard-v0", "Shard"), ("lts/ShardOneShot-v0", "ShardOneShot")):
        if env_id not in gymnasium.registry:
            package = "lts_bench.envs"
            gymnasium.register(
                env_id, entry_point=f"{package}:{name}Env", vector_entry_point=f"{package}:{name}VectorEnv"
            )


register()
