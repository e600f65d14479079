"""The genetic algorithm breeds legal strategies and beats random search on the toy task."""

from __future__ import annotations

import numpy as np
from fakes import ToyTask

from lts_bench.agents.evolution import Evolution
from lts_bench.baselines.random import RandomSearch
from lts_bench.testing.conformance import run_agent


def test_it_beats_random_search_on_most_tasks():
    wins = [
        run_agent(Evolution, task, 500).best.goodput_per_npu > run_agent(RandomSearch, task, 500).best.goodput_per_npu
        for task in map(ToyTask, range(8))
    ]
    assert sum(wins) >= 7


def test_graded_violations_lead_it_to_the_feasible():
    task = ToyTask(memory_limit_bytes=1 / 8)
    share = task.evaluate(task.space.sample(2_000, np.random.default_rng(0)))["feasible"].mean()
    meter = run_agent(Evolution, task, 400)
    assert 1 - meter.infeasible / meter.used > 1.5 * share


def test_a_space_too_small_to_breed_in_is_sampled_to_the_end():
    task = ToyTask()
    task.space._masks[:, 1:, :] = False
    task.space._masks[:, 1:, 0] = True
    meter = run_agent(Evolution, task, 300)
    assert meter.used == 300
    assert meter.unique <= task.space.sizes[0]
