"""Step times of one replica as arrays: looked up by tokens to prefill, decoding rows and their context.

A step of decoding takes D(rows, context). A step that prefills n tokens takes G(n), all but the attention between
tokens, and A(end) − A(begin) for every part of a prompt from ``begin`` to ``end``; beside rows that decode it adds
G(rows + n) − G(rows) + B: the marginal work of its tokens, and launches that decode steps and prefills do not share.
D, G and A are tables, linear between their points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled

FloatArray = NDArray[np.float64]
HEAVIEST, ALL_STAGES = range(2)
"""Times of the heaviest pipeline stage, which limits the rate, and of all stages in turn, which is the latency; where
there is one stage they are equal."""
TOKENS, CONTEXTS = range(2)
LONE, ALL_RANKS, ATTENTION, BESIDE = range(4)
"""G where one data-parallel rank prefills, G where all do, A ÷ tokens, and B, which is the same for all tokens."""


class StepTimes(NamedTuple):
    """Tables of a replica.

    Attributes:
        grid: (2, points) ascending: ``TOKENS`` of a step or a prompt; ``CONTEXTS``, mean tokens that a row attends to.
        decode: (2, rows + 1, points) seconds D by stages, rows of the fullest rank, context.
        prefill: (2, 4, points) seconds by stages, kind and tokens of the fullest rank: ``LONE``, ``ALL_RANKS``,
            ``ATTENTION``, ``BESIDE``.
    """

    grid: FloatArray
    decode: FloatArray
    prefill: FloatArray


@compiled
def interpolate(grid: FloatArray, values: FloatArray, x: float) -> float:
    """Linear between the points of an ascending grid, constant below the first, as in the last cell beyond it."""
    low, high = 0, len(grid) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if grid[middle] <= x:
            low = middle
        else:
            high = middle
    slope = (values[high] - values[low]) / (grid[high] - grid[low])
    found: float = values[low] + max(x - grid[low], 0.0) * slope
    return found


@compiled
def decode_seconds(times: StepTimes, stages: int, rows: int, context: float) -> float:
    """D: one token of each of ``rows`` rows; ``context`` tokens each in the mean."""
    return interpolate(times.grid[CONTEXTS], times.decode[stages, rows], context)


@compiled
def attention_seconds(times: StepTimes, stages: int, begin: int, end: int) -> float:
    """A(end) − A(begin): attention of a prompt's tokens from ``begin`` to ``end`` to all before them."""
    grid, each = times.grid[TOKENS], times.prefill[stages, ATTENTION]
    return end * interpolate(grid, each, end) - begin * interpolate(grid, each, begin)


@compiled
def linear_seconds(times: StepTimes, stages: int, tokens: int, share: float) -> float:
    """G of the fullest rank's tokens; ``share`` is how full the others are: 0 with none, 1 with as many."""
    if tokens == 0:
        return 0.0
    lone = interpolate(times.grid[TOKENS], times.prefill[stages, LONE], tokens)
    if share == 0:
        return lone
    return lone + share * (interpolate(times.grid[TOKENS], times.prefill[stages, ALL_RANKS], tokens) - lone)


@compiled
def prefill_seconds(times: StepTimes, stages: int, tokens: int, rows: int, share: float) -> float:
    """What the tokens of a prefill add to a step of ``rows`` that decode, their attention aside."""
    if rows == 0:
        return linear_seconds(times, stages, tokens, share)
    beside: float = times.prefill[stages, BESIDE, 0]
    return beside + linear_seconds(times, stages, rows + tokens, share) - linear_seconds(times, stages, rows, share)


def constant_times(decode_s: float, token_s: float, rows: int) -> StepTimes:
    """Made-up times: a decode step takes ``decode_s``, a token of a prompt ``token_s``, all else nothing."""
    tokens = np.array([1.0, 2.0])
    prefill = np.array([[token_s * tokens, token_s * tokens, 0 * tokens, 0 * tokens]] * 2)
    return StepTimes(np.array([tokens, tokens]), np.full((2, rows + 1, 2), decode_s), prefill)
