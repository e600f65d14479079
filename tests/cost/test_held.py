"""Arrays held on the compiled side."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from tiny_settings import dense_model, setting, space_of

import lts_bench
from lts_bench.answer import ANSWER
from lts_bench.cost.evaluator import NO_POINTS, Evaluator
from lts_bench.cost.held import hold
from lts_bench.cost.loop import evaluate_all
from lts_bench.cost.program import Program
from lts_bench.task import Task

# Machine code is kept with the types that it is for, so nothing but programs is held here.


def own_program() -> Program:
    """A program whose arrays nobody else has."""
    program = space_of(setting(dense_model()))[1].program
    return program._replace(lines=program.lines.copy(), pp=program.pp.copy())


def test_holding_counts_no_references() -> None:
    program = own_program()
    before = sys.getrefcount(program.lines)
    held = hold(program)
    evaluate_all(held, np.zeros((1, len(program.sizes)), np.int64), np.empty(1, ANSWER), NO_POINTS)
    after = sys.getrefcount(program.lines)
    assert after == before
    watch = weakref.ref(program.lines)
    del program
    gc.collect()
    assert watch() is None


def test_an_evaluator_keeps_the_program_that_it_holds() -> None:
    space, cost = space_of(setting(dense_model()))
    vectors = space.sample(500, np.random.default_rng(0))
    alone = Evaluator(own_program())
    alone.evaluate(vectors[:1])
    gc.collect()
    others = [np.full(cost.program.lines.shape, np.nan) for _ in range(8)]
    assert (alone.evaluate(vectors) == cost.evaluate(vectors)).all(), others


def test_what_is_held_is_the_program_itself() -> None:
    vectors = space_of(setting(dense_model()))[0].sample(500, np.random.default_rng(0))
    program = own_program()
    alone = Evaluator(program)
    before = alone.evaluate(vectors)
    program.lines[:] *= 2
    after = alone.evaluate(vectors)
    assert (before["feasible"] & (after["goodput_per_npu"] < before["goodput_per_npu"])).any()


@pytest.mark.parametrize("serving", ["co-located", "disaggregated"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda task: pickle.loads(pickle.dumps(task))])
def test_copies_hold_their_own(serving: str, copied: Callable[[Task], Task]) -> None:
    workload = "isl=1024,osl=128,ttft_ms=500,tpot_ms=50"
    task = lts_bench.make_task(model="llama-3.1-8b", cluster="h100x4", workload=workload, serving=serving)
    vectors = task.space.sample(50, np.random.default_rng(0))
    expected = task.evaluate(vectors)
    other = copied(task)
    del task
    gc.collect()
    assert (other.evaluate(vectors) == expected).all() and expected["feasible"].any()
