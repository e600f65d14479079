"""Megatron's pattern at all degrees: the yardstick of a task."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.patterns import DP, EP, ETP, PP, TY, likeliest_first


class MegatronSearch(Agent):
    """Megatron's split of every operator at all degrees, with and without sequence parallelism.

    The order follows the published advice (Narayanan et al., arXiv 2104.04473; Megatron-LM, moe/README.md): degrees
    whose weights fit, within a scale-up domain, experts whole, as little model parallelism as possible.
    """

    name, version, track, anytime = "megatron_search", "1", "heuristic", True
    defaults: ClassVar[dict[str, Any]] = {"batch": 256}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Evaluate the patterns, best guess first, until they or the budget end."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        vectors = best_guess_first(problem.space, megatron_vectors(problem.space), features)
        with contextlib.suppress(BudgetExhausted):
            for start in range(0, len(vectors), self.parameters["batch"]):
                problem.evaluate(vectors[start : start + self.parameters["batch"]])


def best_guess_first(space: Space, vectors: np.ndarray, features: Mapping[str, float]) -> np.ndarray:
    """Sort strategies by the advice; among equals few pipeline stages and many expert ranks come first."""

    def keys(degrees: np.ndarray) -> tuple[np.ndarray, ...]:
        too_large = weight_bytes(degrees, features) > features["hbm_bytes"] * features["memory_fraction"]
        wide = degrees[:, DP] * degrees[:, TY] > features["domain_devices"]
        split_experts = (features["experts"] > 0) & (degrees[:, ETP] > 1)
        model_parallel = degrees[:, PP] * degrees[:, TY]
        return -degrees[:, EP], degrees[:, PP], model_parallel, split_experts, wide, too_large

    sorted_by_advice: np.ndarray = vectors[likeliest_first(space.degrees[vectors[:, 0]], keys)]
    return sorted_by_advice


def weight_bytes(degrees: np.ndarray, features: Mapping[str, float]) -> np.ndarray:
    """Return the bytes of weights on a device, roughly: experts over ep and etp, the rest over tp, all over pp.

    Of the experts' parameters E a token activates E k / n, so total - active = E (1 - k / n).
    """
    idle = 1.0 - features["top_k"] / features["experts"] if features["experts"] else 0.0
    experts = (features["parameters"] - features["active_parameters"]) / idle if idle else 0.0
    rest = features["parameters"] - experts
    per_stage = experts / (degrees[:, EP] * degrees[:, ETP]) + rest / degrees[:, TY]
    share: np.ndarray = features["weight_bytes"] * per_stage / degrees[:, PP]
    return share
