"""Published recipes on every axis at all degrees: what an engineer who knows the literature would try."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lts_bench.agent import Agent
from lts_bench.baselines.megatron_search import weight_bytes
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.space.patterns import DP, ETP, PP, TX, TY, likeliest_first, operator_name


class Recipe(NamedTuple):
    """What one axis splits; router, embedding and latent down-projections follow the residual."""

    stream: str
    qkv: str
    core: str
    out: str
    up: str
    down: str
    shared_up: str
    shared_down: str


RECIPES = {
    # Heads and FFN columns (Megatron-LM, arXiv 1909.08053; 1-D weight-stationary of Pope et al., arXiv 2211.05102).
    "megatron": Recipe("R", "N", "heads", "K", "N", "K", "N", "K"),
    # The same with sequence parallelism (Korthikanti et al., arXiv 2205.05198).
    "megatron_sequence": Recipe("M", "N", "heads", "K", "N", "K", "N", "K"),
    # Data-parallel attention, dense and shared FFN replicated (DeepSeek-V3, arXiv 2412.19437, section 3.4).
    "tokens": Recipe("M", "M", "batch", "M", "M", "M", "M", "M"),
    # Data-parallel attention with tensor-parallel FFN (SGLang, --enable-dp-attention).
    "tokens_attention": Recipe("M", "M", "batch", "M", "N", "K", "N", "K"),
    # Tensor-parallel attention, shared expert replicated (DeepSeek-V3, section 3.4.1: prefilling).
    "heads_tokens": Recipe("M", "N", "heads", "K", "M", "M", "M", "M"),
    # Projections by heads, attention by sequences (Pope et al., section 3.3).
    "batch_attention": Recipe("M", "N", "batch", "K", "N", "K", "N", "K"),
    # Hidden features: with megatron on the other axis the 2-D weight-stationary layout (Pope et al., section 3.2.2).
    "hidden": Recipe("N", "K", "heads", "N", "K", "N", "K", "N"),
    # The same with attention by sequences (Pope et al., sections 3.2.2 and 3.3).
    "hidden_batch": Recipe("N", "K", "batch", "N", "K", "N", "K", "N"),
    # Context parallelism (ring attention, arXiv 2310.01889; Llama 3, arXiv 2407.21783, section 3.3.2).
    "context": Recipe("M", "M", "kv_sequence", "M", "M", "M", "M", "M"),
    # The cache by positions, weights as in megatron (Helix, arXiv 2507.07120).
    "helix": Recipe("R", "N", "kv_sequence", "K", "N", "K", "N", "K"),
    # Attention replicated, FFN split (heads that do not divide: TensorRT-LLM, Whisper and small models).
    "ffn_only": Recipe("R", "R", "R", "R", "N", "K", "N", "K"),
    # Every contraction split (row-parallel linear layers alone, Megatron-LM).
    "contraction": Recipe("N", "K", "heads", "K", "K", "K", "K", "K"),
}
"""One axis each, the commonest first; two axes take any pair."""

EXPERTS = {"experts.up": "N", "experts.down": "K"}
"""Experts that are not whole are split as in Megatron-LM (moe/README.md)."""


class Recipes(Agent):
    """A library of published per-axis recipes, and all pairs of them, at all degrees.

    Degrees are sorted by a rule of thumb: weights fit, experts whole, few devices a replica, groups within a scale-up
    domain, few stages. A strategy's turn is the product of its degrees' place and its recipe's place, so that a short
    budget sees the commonest recipes at many degrees and rare ones at the likeliest.
    """

    name, version, track, anytime = "recipes", "1", "heuristic", True
    defaults: ClassVar[dict[str, Any]] = {"batch": 256}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Evaluate the legal ones in turn until they or the budget end."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        with contextlib.suppress(BudgetExhausted):
            for vectors in recipe_vectors(problem.space, features, self.parameters["batch"]):
                problem.evaluate(vectors)


def recipe_vectors(space: Space, features: Mapping[str, float], batch: int) -> Iterator[np.ndarray]:
    """Yield all legal, distinct strategies (n, d) of the library, those whose turn comes first in front."""
    one, two = _library(space)
    order = rule_of_thumb(space.degrees, features)
    paired = space.degrees[order, TX] > 1
    groups = [_turns(order, ~paired, len(one), 0), _turns(order, paired, len(two), len(one))]
    turns, degrees, recipes = np.concatenate(groups, axis=1)
    queue = np.argsort(turns, kind="stable")
    letters = np.concatenate([one, two])
    seen: set[bytes] = set()
    for start in range(0, len(queue), batch):
        now = queue[start : start + batch]
        vectors = space.canonical(np.concatenate([degrees[now, None], letters[recipes[now]]], axis=1))
        vectors = vectors[space.legal(vectors)]
        fresh = {vector.tobytes(): vector for vector in vectors}
        found = [vector for key, vector in fresh.items() if key not in seen]
        seen.update(fresh)
        if found:
            yield np.array(found)


def _turns(order: np.ndarray, chosen: np.ndarray, recipes: int, first: int) -> np.ndarray:
    """Return turn, degrees and recipe (3, n) of each of ``recipes``, the first numbered so, at the chosen degrees."""
    place, recipe = np.meshgrid(np.flatnonzero(chosen), np.arange(recipes), indexing="ij")
    return np.stack([(place + 1) * (recipe + 1), order[place], recipe + first]).reshape(3, -1)


def rule_of_thumb(listed: np.ndarray, features: Mapping[str, float]) -> np.ndarray:
    """Return the indices of degrees (n, 7), or of two pools (n, 14), the likeliest first."""

    def keys(degrees: np.ndarray) -> tuple[np.ndarray, ...]:
        whole = degrees.copy()
        whole[:, TY] *= whole[:, TX]
        too_large = weight_bytes(whole, features) > features["hbm_bytes"] * features["memory_fraction"]
        wide = degrees[:, DP] * whole[:, TY] > features["domain_devices"]
        split_experts = (features["experts"] > 0) & (degrees[:, ETP] > 1)
        replica = degrees[:, PP] * degrees[:, DP] * whole[:, TY]
        return degrees[:, TX], degrees[:, PP], wide, replica, split_experts, too_large

    return likeliest_first(listed, keys)


def _library(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Return choices (n, d - 1) of every recipe on y alone, and of every pair on (x, y)."""
    recipes = list(RECIPES.values())
    pairs = sorted(itertools.product(range(len(recipes)), repeat=2), key=lambda pair: (sum(pair), pair))
    one = [_choices(space, recipe, recipe) for recipe in recipes]
    two = [_choices(space, recipes[x], recipes[y]) for x, y in pairs]
    return np.array(one), np.array(two)


def _choices(space: Space, x: Recipe, y: Recipe) -> list[int]:
    found = []
    for name, labels in zip(space.names[1:], space.choices[1:], strict=True):
        operator = operator_name(name)
        if operator in EXPERTS:
            found.append(labels.index(EXPERTS[operator]))
            continue
        pair = f"{letter(x, operator)},{letter(y, operator)}"
        # Recurrent mixers keep no cache whose positions could be split.
        found.append(labels.index(pair if pair in labels else pair.replace("kv_sequence", "batch")))
    return found


def letter(recipe: Recipe, operator: str) -> str:
    """Return what a recipe splits an operator on."""
    down = {"R": "R", "M": "M", "N": "K"}[recipe.stream]
    letters = {
        "stream": recipe.stream,
        "attention.qkv": recipe.qkv,
        "attention.q_down": down,
        "attention.q_up": recipe.qkv,
        "attention.kv_down": down,
        "attention.kv_up": recipe.qkv,
        "attention.core": recipe.core,
        "attention.out": recipe.out,
        "ffn.up": recipe.up,
        "ffn.down": recipe.down,
        "shared.up": recipe.shared_up,
        "shared.down": recipe.shared_down,
        "router": "M" if recipe.stream == "M" else "R",
        "embed": "M" if recipe.stream == "M" else "vocabulary",
        "head": "vocabulary",
    }
    return letters[operator]
