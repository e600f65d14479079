"""Random search draws what the space draws."""

from __future__ import annotations

import numpy as np
from fakes import ToyTask

from lts_bench.baselines.random import RandomSearch
from lts_bench.testing.conformance import run_agent


def test_it_evaluates_the_spaces_own_samples():
    task = ToyTask()
    expected = task.evaluate(task.space.sample(RandomSearch.batch, np.random.default_rng(5)))
    meter = run_agent(RandomSearch, task, 100, seed=5)
    assert meter.best.goodput_per_npu == expected["goodput_per_npu"][:100].max()
    assert meter.best.evaluation == 1 + expected["goodput_per_npu"][:100].argmax()


def test_other_seeds_draw_other_strategies():
    runs = [run_agent(RandomSearch, ToyTask(), 50, seed=seed) for seed in (0, 1)]
    assert runs[0].trace[0].vector != runs[1].trace[0].vector
