"""Step times of one replica as arrays: looked up by tokens to prefill, decoding sequences and their context.

A step of decoding takes D(rows, context). A step that prefills n tokens takes G(n), all but the attention between
tokens, and A(end) − A(begin) for every part of a prompt from ``begin`` to ``end``; beside rows that decode it adds
G(rows + n) − G(rows), the marginal work of its tokens. All three are tables, linear between their points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled

FloatArray = NDArray[np.float64]
HEAVIEST, ALL_STAGES = range(2)
"""Times of the heaviest pipeline stage, which limits the rate, and of all stages in turn, which is the latency."""
LONE, ALL_RANKS = range(2)
"""How many data-parallel ranks prefill: one, or all of them."""


class StepTimes(NamedTuple):
    """Seconds, of the heaviest stage and of all stages.

    Attributes:
        contexts: (contexts,) ascending mean tokens that a decoding row attends to.
        decode: (2, rows + 1, contexts) D by stages, rows of the fullest rank, context.
        tokens: (tokens,) ascending tokens, of a step or of a prompt.
        linear: (2, 2, tokens) G by stages, ranks that prefill, tokens of the fullest one.
        attention: (2, tokens) A ÷ tokens of the prompt's part so far, by stages.
    """

    contexts: FloatArray
    decode: FloatArray
    tokens: FloatArray
    linear: FloatArray
    attention: FloatArray


@compiled
def cell_of(grid: FloatArray, x: float) -> int:
    """The cell of an ascending grid that x lies in; beyond an end, the cell there."""
    low, high = 0, len(grid) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if grid[middle] <= x:
            low = middle
        else:
            high = middle
    return low


@compiled
def interpolate(grid: FloatArray, values: FloatArray, x: float) -> float:
    """Linear between the points of a grid, constant below the first, as in the last cell beyond it."""
    at = cell_of(grid, x)
    slope = (values[at + 1] - values[at]) / (grid[at + 1] - grid[at])
    return values[at] + max(x - grid[at], 0.0) * slope


@compiled
def decode_seconds(times: StepTimes, stages: int, rows: int, context: float) -> float:
    """D: one token of each of ``rows`` rows; ``context`` tokens each in the mean."""
    return interpolate(times.contexts, times.decode[stages, rows], context)


@compiled
def attention_seconds(times: StepTimes, stages: int, begin: int, end: int) -> float:
    """A(end) − A(begin): attention of a prompt's tokens from ``begin`` to ``end`` to all before them."""
    upto_end = end * interpolate(times.tokens, times.attention[stages], end)
    return upto_end - begin * interpolate(times.tokens, times.attention[stages], begin)


@compiled
def linear_seconds(times: StepTimes, stages: int, tokens: int, share: float) -> float:
    """G of the fullest rank's tokens; ``share`` is how full the others are: 0 with none, 1 with as many."""
    if tokens == 0:
        return 0.0
    lone = interpolate(times.tokens, times.linear[stages, LONE], tokens)
    if share == 0:
        return lone
    return lone + share * (interpolate(times.tokens, times.linear[stages, ALL_RANKS], tokens) - lone)


@compiled
def prefill_seconds(times: StepTimes, stages: int, tokens: int, rows: int, share: float) -> float:
    """G(rows + tokens) − G(rows): what the tokens of a prefill add to a step, their attention aside."""
    return linear_seconds(times, stages, rows + tokens, share) - linear_seconds(times, stages, rows, share)


def constant_times(decode_s: float, token_s: float, rows: int) -> StepTimes:
    """Made-up times: a decode step takes ``decode_s``, a token of a prompt ``token_s``, attention nothing."""
    grid = np.array([1.0, 2.0])
    decode = np.full((2, rows + 1, 2), decode_s)
    return StepTimes(grid, decode, grid, np.tile(token_s * grid, (2, 2, 1)), np.zeros((2, 2)))
