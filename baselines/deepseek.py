"""DeepSeek's recipe: attention by data, experts far and wide, everything else replicated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lts_bench.agent import Agent
from lts_bench.baselines.megatron_search import weight_bytes
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.space.operators import MEGATRON
from lts_bench.space.patterns import COLUMNS, EP, ETP, PP, TX, TY, fill_pattern, likeliest_first

EXPERTS = {"experts.up": "N", "experts.down": "K"}
TOKENS = {**dict.fromkeys(MEGATRON, "M"), "attention.core": "batch", "head": "vocabulary", **EXPERTS}
"""Attention by sequences, the shared expert and dense layers replicated (arXiv 2412.19437, section 3.4)."""

HEADS = {
    **TOKENS,
    "attention.qkv": "N",
    "attention.q_up": "N",
    "attention.kv_up": "N",
    "attention.core": "heads",
    "attention.out": "K",
}
"""The same with attention by heads and sequence parallelism within a small tp group (section 3.4.1: prefilling)."""

DENSE = {**TOKENS, "ffn.up": "N", "ffn.down": "K"}
"""Attention by sequences, FFN by columns: what engines make of it for dense models (SGLang, --enable-dp-attention)."""

PUBLISHED_TP = 4
"""tp of attention, in prefilling and decoding (sections 3.4.1 and 3.4.2)."""


class DeepSeek(Agent):
    """DeepSeek-V3's deployment: small tp, data-parallel attention, wide ep, a replicated shared expert.

    Of a mixture of experts it tries all degrees with whole experts: those that hold the weights, without stages, tp
    up to the published one, the widest ep in front. Dense models have no experts to spread: their attention is split
    by sequences within the smallest tp that holds the weights, and replicas are the data parallelism.
    """

    name, version, track, anytime = "deepseek", "1", "heuristic", True

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Evaluate the recipe at the degrees in turn until they or the budget end."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        problem.evaluate(widest_first(problem.space, features))


def widest_first(space: Space, features: Mapping[str, float]) -> np.ndarray:
    """Return the legal strategies (n, d) of the recipe, best guess first."""
    sparse = features["experts"] > 0
    patterns = (TOKENS, HEADS) if sparse else (DENSE,)
    filled = np.concatenate([fill_pattern(space, pattern, pattern) for pattern in patterns])
    degrees = space.degrees[filled[:, 0]]
    again = (np.arange(len(filled)) >= len(space.degrees)) & (degrees[:, TY::COLUMNS] == 1).all(axis=1)
    wanted = (degrees[:, TX] == 1) & ~again & ((degrees[:, ETP::COLUMNS] == 1).all(axis=1) | (not sparse))
    vectors = filled[wanted]
    vectors = vectors[space.legal(vectors)]

    def keys(degrees: np.ndarray) -> tuple[np.ndarray, ...]:
        held = degrees.copy()
        if sparse:
            held[:, TY] = 1
        too_large = weight_bytes(held, features) > features["hbm_bytes"] * features["memory_fraction"]
        return degrees[:, TY], -degrees[:, EP], degrees[:, TY] > PUBLISHED_TP, degrees[:, PP], too_large

    ordered: np.ndarray = vectors[likeliest_first(space.degrees[vectors[:, 0]], keys)]
    return ordered
