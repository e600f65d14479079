"""The genetic algorithm breeds legal strategies and beats random search on the toy task."""

from __future__ import annotations

import numpy as np
from fakes import ToyTask

from lts_bench.agents.evolution import Evolution, draw_choices, near_degrees
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


def test_drawn_choices_are_all_the_legal_ones_and_no_others():
    space, rng = ToyTask().space, np.random.default_rng(0)
    degrees = np.full(3_000, 4)
    drawn = draw_choices(space, degrees, rng)
    for column in range(1, len(space.sizes)):
        assert set(drawn[:, column]) == set(np.flatnonzero(space.mask(4)[column]))
    assert set(drawn[:, 0]) == {4}


def test_drawn_choices_are_uniform():
    space, rng = ToyTask().space, np.random.default_rng(0)
    drawn = draw_choices(space, np.full(20_000, 4), rng)
    for column in range(1, len(space.sizes)):
        legal = np.flatnonzero(space.mask(4)[column])
        shares = np.bincount(drawn[:, column], minlength=len(legal))[legal] / len(drawn)
        assert np.abs(shares - 1 / len(legal)).max() < 0.02


def test_near_degrees_are_others_and_half_as_likely_a_doubling_further():
    space, rng = ToyTask().space, np.random.default_rng(0)
    distances = np.abs(np.log2(space.degrees) - np.log2(space.degrees[4])).sum(axis=1)
    expected = np.where(distances > 0, 0.5**distances, 0.0)
    near = near_degrees(space, np.full(20_000, 4), rng)
    shares = np.bincount(near, minlength=len(space.degrees)) / len(near)
    assert np.abs(shares - expected / expected.sum()).max() < 0.02


def test_the_only_degrees_have_none_near():
    space = ToyTask().space
    space.degrees = space.degrees[:1]
    assert near_degrees(space, np.zeros(3, dtype=np.int64), np.random.default_rng(0)).tolist() == [0, 0, 0]


def test_a_space_too_small_to_breed_in_is_sampled_to_the_end():
    task = ToyTask()
    task.space._masks[:, 1:, :] = False
    task.space._masks[:, 1:, 0] = True
    meter = run_agent(Evolution, task, 300)
    assert meter.used == 300
    assert meter.unique <= task.space.sizes[0]
