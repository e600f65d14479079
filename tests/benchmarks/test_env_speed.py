"""How many steps a second the vector environments take, without learning: random legal actions, chosen in a batch."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import lts_bench
from lts_bench.envs import sample_choices

TASKS = {
    "llama-3.1-405b on 256 H100": ("llama-3.1-405b", "h100x256", "isl=1024,osl=512,ttft_ms=6000,tpot_ms=175"),
    "deepseek-v3 on 256 H100": ("deepseek-v3", "h100x256", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
    "moe-1.6t on 2,048 H100": ("moe-1.6t", "h100x2048", "isl=2048,osl=1024,ttft_ms=3000,tpot_ms=50"),
}


def make(env_id: str, name: str, num_envs: int, **options: Any) -> Any:
    model, cluster, workload = TASKS[name]
    task = lts_bench.make_task(model=model, cluster=cluster, workload=workload)
    mode = "vector_entry_point"
    return gymnasium.make_vec(f"lts_bench:{env_id}", num_envs, vectorization_mode=mode, task=task, **options)


def play_sequential(env: Any, rng: np.random.Generator) -> int:
    """Play every episode to its end; return the steps."""
    observations, _ = env.reset()
    over, steps = np.zeros(env.num_envs, dtype=np.bool_), 0
    while not over.all():
        observations, _, over, _, _ = env.step(sample_choices(observations["mask"], rng))
        steps += env.num_envs
    return steps


def report(benchmark: Any, what: str, steps: int) -> None:
    if benchmark.stats is not None:
        print(f"\n{what}: {steps / benchmark.stats.stats.min:,.0f} steps/s")


@pytest.mark.parametrize("copy", [True, False], ids=["copied", "in place"])
@pytest.mark.parametrize("num_envs", [256, 1024])
@pytest.mark.parametrize("name", TASKS)
def test_sequential_steps_per_second(benchmark: Any, name: str, num_envs: int, copy: bool) -> None:
    env, rng = make("lts/Shard-v0", name, num_envs, copy=copy), np.random.default_rng(0)
    steps = benchmark.pedantic(play_sequential, (env, rng), rounds=5, warmup_rounds=1)
    assert env.problem.meter.illegal == 0
    report(benchmark, f"{name}, {num_envs} episodes, {'copied' if copy else 'in place'}", steps)


@pytest.mark.parametrize("num_envs", [256, 1024])
@pytest.mark.parametrize("name", TASKS)
def test_one_shot_steps_per_second(benchmark: Any, name: str, num_envs: int) -> None:
    env, rng = make("lts/ShardOneShot-v0", name, num_envs), np.random.default_rng(0)

    def play() -> None:
        env.reset()
        env.step(env.problem.space.sample(num_envs, rng))

    benchmark.pedantic(play, rounds=20, warmup_rounds=1)
    assert env.problem.meter.illegal == 0
    report(benchmark, f"{name}, {num_envs} strategies", num_envs)
