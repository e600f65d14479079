"""Megatron's pattern at all degrees of a space."""

from __future__ import annotations

import numpy as np

from lts_bench.space.decisions import IntArray, Space
from lts_bench.space.operators import MEGATRON
from lts_bench.space.patterns import COLUMNS, TX, TY, fill_pattern

MEGATRON_SEQUENCE = {**MEGATRON, "stream": "M"}
"""The same with sequence parallelism: the residual is split on tokens (arXiv 2205.05198)."""


def megatron_vectors(space: Space) -> IntArray:
    """Return all legal strategies (n, d) of Megatron's pattern.

    Each operator is split as `MEGATRON` says over the whole tensor-parallel group, experts over etp; the residual is
    replicated, or split on tokens (sequence parallelism). Groups of two axes are left out: Megatron has none.
    """
    one_axis, group = space.degrees[:, TX] == 1, space.degrees[:, TY::COLUMNS].max(axis=1) > 1
    plain = fill_pattern(space, MEGATRON, MEGATRON)[one_axis]
    sequence = fill_pattern(space, MEGATRON_SEQUENCE, MEGATRON_SEQUENCE)[one_axis & group]
    patterns: IntArray = np.concatenate([plain, sequence])
    return patterns[space.legal(patterns)]
