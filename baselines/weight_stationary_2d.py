"""Two-dimensional weight-stationary layouts: hidden features on one axis, inner features on the other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from lts_bench.agent import Agent
from lts_bench.baselines.megatron_search import weight_bytes
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.space.operators import MEGATRON
from lts_bench.space.patterns import DP, PP, TX, TY, fill_pattern

INNER = MEGATRON
"""The axis of inner features is Megatron's."""

HIDDEN = {
    **INNER,
    "stream": "N",
    "attention.qkv": "K",
    "attention.q_down": "K",
    "attention.kv_down": "K",
    "attention.out": "N",
    "ffn.up": "K",
    "ffn.down": "N",
    "shared.up": "K",
    "shared.down": "N",
    "embed": "hidden",
    "head": "hidden",
}
"""The axis of hidden features; the latents of MLA are small, so its heads are split on both axes."""

ATTENTION = (("heads", "heads"), ("batch", "batch"), ("batch", "heads"))
"""What (x, y) split attention on: heads, sequences (section 3.3), heads where the projections leave them."""

RESIDUAL = ("R", "N")
"""What y splits the residual on: kept whole for the next layer's matrices, or scattered like x (section 3.2.2)."""


class WeightStationary2D(Agent):
    """Pope et al.'s weight-stationary layouts on two axes, attention by heads or by sequences.

    Weights never move (arXiv 2211.05102, sections 3.2.2 and 3.3). Degrees with two axes are tried in turn: those that
    hold the weights, few stages, few devices a replica, axes near the paper's optimum. Where no layout of two axes is
    legal, those of one axis are tried, which are the paper's one-dimensional ones (section 3.2.1).
    """

    name, version, track, anytime = "weight_stationary_2d", "1", "heuristic", True

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Evaluate the layouts in turn until they or the budget end."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        problem.evaluate(layouts(problem.space, features))


def _variants() -> list[tuple[dict[str, str], dict[str, str]]]:
    """Return all patterns (x, y)."""
    return [
        ({**HIDDEN, "attention.core": core_x}, {**INNER, "attention.core": core_y, "stream": residual})
        for (core_x, core_y), residual in itertools.product(ATTENTION, RESIDUAL)
    ]


def layouts(space: Space, features: Mapping[str, float]) -> np.ndarray:
    """Return the legal layouts (n, d), best guess first."""
    filled = np.concatenate([fill_pattern(space, x, y) for x, y in _variants()])
    legal = filled[space.legal(filled)]
    axes = (space.degrees[legal[:, 0]][:, [TX, TY]] > 1).sum(axis=1)
    vectors = np.unique(legal[axes == axes.max()], axis=0)
    degrees = space.degrees[vectors[:, 0]]
    group = degrees[:, TX] * degrees[:, TY]
    # x splits E and y splits F = 4 E: communication is least at x = sqrt(n) / 2 (section 3.2.2).
    off_balance = np.abs(np.log2(degrees[:, TX] / (np.sqrt(group) / 2)))
    held = degrees.copy()
    held[:, TY] = group
    too_large = weight_bytes(held, features) > features["hbm_bytes"] * features["memory_fraction"]
    ordered: np.ndarray = vectors[np.lexsort((off_balance, degrees[:, DP] * group, degrees[:, PP], too_large))]
    return ordered
