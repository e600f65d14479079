"""Arrays held on the compiled side."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
from tiny_settings import dense_model, setting, space_of

from lts_bench.answer import ANSWER
from lts_bench.cost.evaluator import NO_POINTS, Evaluator
from lts_bench.cost.held import hold
from lts_bench.cost.loop import evaluate_all
from lts_bench.cost.program import Program

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
