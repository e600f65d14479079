"""Megatron's pattern at all degrees of a space."""

from __future__ import annotations

import numpy as np

from lts_bench.space.decisions import IntArray, Space
from lts_bench.space.operators import MEGATRON

TX, TY, ETP = 3, 4, 6
"""Columns of `Space.degrees`."""


def megatron_vectors(space: Space) -> IntArray:
    """Return all legal strategies (n, d) of Megatron's pattern.

    Each operator is split as `MEGATRON` says over the whole tensor-parallel group, experts over etp; the residual is
    replicated, or split on tokens (sequence parallelism). Groups of two axes are left out: Megatron has none.
    """
    vectors = np.concatenate([_pattern(space, "R"), _pattern(space, "M")])
    one_axis = space.degrees[vectors[:, 0], TX] == 1
    again = (np.arange(len(vectors)) >= len(space.degrees)) & (space.degrees[vectors[:, 0], TY] == 1)
    patterns: IntArray = vectors[one_axis & ~again]
    return patterns[space.legal(patterns)]


def _pattern(space: Space, stream: str) -> IntArray:
    """Return the pattern at all degrees, with the given split of the residual."""
    vectors = np.zeros((len(space.degrees), len(space.names)), dtype=np.int64)
    vectors[:, 0] = np.arange(len(space.degrees))
    for column, name in enumerate(space.names[1:], start=1):
        operator = name.partition(".")[2] or name
        letter = stream if operator == "stream" else MEGATRON[operator]
        expert = operator.startswith("experts.")
        whole, split = ("R", letter) if expert else ("R,R", f"R,{letter}")
        size = space.degrees[:, ETP if expert else TY]
        labels = space.choices[column]
        vectors[:, column] = np.where(size == 1, labels.index(whole), labels.index(split))
    return vectors
