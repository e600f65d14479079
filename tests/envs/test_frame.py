"""The room of a suite's spaces, from lists of degrees and operators alone."""

from __future__ import annotations

import numpy as np
import pytest

from lts_bench.envs.frame import MOST_CHOICES, Frame, suite_frame
from lts_bench.specs.suite import list_suites, load_suite
from lts_bench.task import Task


@pytest.mark.parametrize("suite", list_suites(generated=False))
def test_a_suites_frame_is_what_its_tasks_need(suite):
    specs = load_suite(suite).tasks
    frame = suite_frame(specs)
    sizes = [Task(spec).space.sizes for spec in specs]
    padded = np.ones((len(sizes), max(map(len, sizes))), dtype=int)
    for row, each in zip(padded, sizes, strict=True):
        row[: len(each)] = each
    assert frame.sizes == tuple(padded.max(axis=0))
    assert all(frame.fits(each.tolist()) for each in sizes)


def test_every_task_has_as_many_features_as_the_frame_says():
    specs = load_suite("smoke").tasks
    assert {len(Task(spec).features) for spec in specs} == {suite_frame(specs).features}


def test_a_stated_bound_leaves_room_for_any_operator():
    specs = load_suite("large-npu").tasks
    frame = suite_frame(specs, (7_000, 23))
    assert frame.sizes == (7_000, *[MOST_CHOICES] * 23)
    assert all(frame.fits(Task(spec).space.sizes.tolist()) for spec in specs)


@pytest.mark.parametrize(
    ("sizes", "fits"), [((5, 3), True), ((5, 4), True), ((6, 3), False), ((5, 3, 1), False), ((5,), True)]
)
def test_what_fits(sizes, fits):
    frame = Frame((5, 4), 0)
    assert frame.fits(sizes) is fits
    assert (frame.widest, frame.widest_operator) == (5, 4)
