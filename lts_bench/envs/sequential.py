"""``lts/Shard-v0``: one decision a step, the degrees first; a reward when the strategy is complete."""

from __future__ import annotations

from lts_bench.envs.episodes import Episodes
from lts_bench.envs.shells import BatchedEnv, SingleEnv


class ShardEnv(SingleEnv):
    """One strategy an episode, a decision a step; see `Episodes` for the observation and `rewards` for the reward.

    An action outside the mask is taken as it is: the strategy is then not legal, and costs its evaluation.
    """

    batch_class = Episodes
    episodes: Episodes


class ShardVectorEnv(BatchedEnv):
    """Many episodes of `ShardEnv`."""

    batch_class = Episodes
    episodes: Episodes
