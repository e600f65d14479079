"""Patterns are filled in axis by axis, and R where an axis has one device."""

from __future__ import annotations

import numpy as np
from fakes import ToySpace

from lts_bench.space.decisions import Space
from lts_bench.space.operators import MEGATRON
from lts_bench.space.patterns import ETP, TX, TY, fill_pattern, operator_name
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model

X = {**MEGATRON, "stream": "N", "attention.core": "batch", "ffn.up": "K"}


def test_the_first_axis_takes_x_the_second_y_and_an_axis_of_one_device_nothing():
    space = ToySpace()
    vectors = fill_pattern(space, X, MEGATRON)
    assert vectors[:, 0].tolist() == list(range(len(space.degrees)))
    for vector in vectors:
        tx, ty = space.degrees[vector[0], [TX, TY]]
        for decision, label in list(space.decode(vector).items())[1:]:
            operator = operator_name(decision)
            assert label == f"{X[operator] if tx > 1 else 'R'},{MEGATRON[operator] if ty > 1 else 'R'}"


def test_experts_take_y_where_they_are_split():
    space = Space.build(load_model("mixtral-8x7b"), load_cluster("h100x8"))
    vectors = fill_pattern(space, X, MEGATRON)
    column = space.names.index("moe.experts.down")
    labels = np.array(space.choices[column])[vectors[:, column]]
    assert (labels == np.where(space.degrees[:, ETP] > 1, "K", "R")).all()


def test_filled_patterns_are_canonical():
    space = Space.build(load_model("deepseek-v3"), load_cluster("h100x32"))
    vectors = fill_pattern(space, X, MEGATRON)
    assert np.array_equal(space.canonical(vectors), vectors)
