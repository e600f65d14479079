"""Per-axis patterns of sharding, filled in at all degrees of a space."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lts_bench.space.decisions import IntArray, Space

REPLICAS, PP, DP, TX, TY, EP, ETP = range(7)
"""Columns of `Space.degrees`."""


def operator_name(decision: str) -> str:
    """Return the operator of a decision: its name without the layer kind."""
    return decision.partition(".")[2] or decision


def fill_pattern(space: Space, x: Mapping[str, str], y: Mapping[str, str]) -> IntArray:
    """Return a pattern at all degrees, one vector (d,) each; legal or not.

    Args:
        space: gives the degrees and the choices.
        x: the letter of each operator on the axis x.
        y: the same on the axis y, for experts over etp. An axis of one device stays R.
    """
    split_x, split_y, split_experts = (np.asarray(space.degrees[:, axis] > 1, dtype=np.intp) for axis in (TX, TY, ETP))
    vectors = np.empty((len(space.degrees), len(space.names)), dtype=np.int64)
    vectors[:, 0] = np.arange(len(space.degrees))
    for column, (decision, labels) in enumerate(zip(space.names[1:], space.choices[1:], strict=True), start=1):
        operator = operator_name(decision)
        on_x, on_y = ("R", x[operator]), ("R", y[operator])
        if operator.startswith("experts."):
            vectors[:, column] = np.array([labels.index(letter) for letter in on_y])[split_experts]
        else:
            index = np.array([[labels.index(f"{a},{b}") for b in on_y] for a in on_x])
            vectors[:, column] = index[split_x, split_y]
    return vectors
