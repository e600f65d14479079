"""Per-axis patterns of sharding, filled in at all degrees of a space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lts_bench.space.decisions import IntArray, Space
from lts_bench.space.disaggregated import POOLS

COLUMNS = 7
REPLICAS, PP, DP, TX, TY, EP, ETP = range(COLUMNS)
"""Columns of `Space.degrees`; a second pool's follow those of the first."""

Keys = Callable[[IntArray], Sequence[np.ndarray]]


def operator_name(decision: str) -> str:
    """Return the operator of a decision: its name without the pool and the layer kind."""
    for pool in POOLS:
        decision = decision.removeprefix(f"{pool}.")
    return decision.partition(".")[2] or decision


def pool_columns(space: Space, decision: str) -> IntArray:
    """Return the degrees (n, 7) of the pool that a decision is about."""
    first = COLUMNS if decision.startswith(f"{POOLS[1]}.") else 0
    return space.degrees[:, first : first + COLUMNS]


def likeliest_first(degrees: IntArray, keys: Keys) -> IntArray:
    """Return the order (n,) of degrees (n, 7) by keys, the last one first as in ``np.lexsort``.

    Degrees of two pools (n, 14) go by the sum of both places.
    """
    places = []
    for first in range(0, degrees.shape[1], COLUMNS):
        columns = np.stack(keys(degrees[:, first : first + COLUMNS])[::-1], axis=1)
        places.append(np.unique(columns.astype(float), axis=0, return_inverse=True)[1].ravel())
    return np.argsort(np.sum(places, axis=0), kind="stable")


def fill_pattern(space: Space, x: Mapping[str, str], y: Mapping[str, str]) -> IntArray:
    """Return a pattern at all degrees, one vector (d,) each; legal or not.

    Args:
        space: gives the degrees and the choices.
        x: the letter of each operator on the axis x.
        y: the same on the axis y, for experts over etp. An axis of one device stays R.
    """
    vectors = np.empty((len(space.degrees), len(space.names)), dtype=np.int64)
    vectors[:, 0] = np.arange(len(space.degrees))
    for column, (decision, labels) in enumerate(zip(space.names[1:], space.choices[1:], strict=True), start=1):
        operator, degrees = operator_name(decision), pool_columns(space, decision)
        split_x, split_y, split_experts = (np.asarray(degrees[:, axis] > 1, dtype=np.intp) for axis in (TX, TY, ETP))
        on_x, on_y = ("R", x[operator]), ("R", y[operator])
        if operator.startswith("experts."):
            vectors[:, column] = np.array([labels.index(letter) for letter in on_y])[split_experts]
        else:
            index = np.array([[labels.index(f"{a},{b}") for b in on_y] for a in on_x])
            vectors[:, column] = index[split_x, split_y]
    return vectors
