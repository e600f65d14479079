"""Every built-in agent on a space of two pools, and the environments."""

from __future__ import annotations

from functools import lru_cache

import gymnasium
import numpy as np
import pytest

from lts_bench.envs.frame import problem_frame, suite_frame
from lts_bench.problem import LocalProblem
from lts_bench.registry import load_agent
from lts_bench.space.patterns import operator_name
from lts_bench.space.pool_space import PoolSpace
from lts_bench.task import Task, make_task
from lts_bench.testing.conformance import run_agent

AGENTS = (
    "random", "evolution", "annealing", "local_search", "eda", "megatron", "megatron_search", "recipes", "deepseek",
    "weight_stationary_2d",
)  # fmt: skip


@lru_cache(maxsize=1)
def task() -> Task:
    return make_task(
        model="mixtral-8x7b", cluster="h100x16", workload="isl=2048,osl=256,ttft_ms=300,tpot_ms=20",
        serving="disaggregated",
    )  # fmt: skip


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_asks_for_legal_strategies_and_finds_some(name: str) -> None:
    meter = run_agent(load_agent(name), task(), 200)
    assert meter.illegal == 0 and 0 < meter.used <= 200
    assert meter.best is not None and meter.best.goodput_per_npu > 0


def test_operators_go_by_their_own_names() -> None:
    names = [operator_name(name) for name in task().space.names[1:]]
    half = len(names) // 2
    assert names[:half] == names[half:] and {"attention.qkv", "experts.up", "embed"} <= set(names)


@pytest.mark.parametrize("name", ["Shard-v0", "ShardOneShot-v0"])
def test_an_episode(name: str) -> None:
    env = gymnasium.make(f"lts_bench:lts/{name}", task=task(), render_mode="ansi")
    observation, _ = env.reset(seed=0)
    rng, over, reward = np.random.default_rng(0), False, 0.0
    while not over:
        one_shot = task().space.sample(1, rng)[0]
        action = rng.choice(np.flatnonzero(observation["mask"])) if name == "Shard-v0" else one_shot
        observation, reward, over, _, _ = env.step(action)
    assert reward >= -1.0
    assert str(env.render()).count("operator ") == 2


def test_the_frame_of_a_suite_holds_both_pools() -> None:
    assert suite_frame([task().spec]) == problem_frame(LocalProblem.of(task()))
    assert isinstance(task().space, PoolSpace)
