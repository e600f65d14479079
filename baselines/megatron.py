"""Megatron's rules as published, without a search: the least model parallelism that the memory allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.baselines.megatron_search import best_guess_first
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.space.megatron import MEGATRON_SEQUENCE
from lts_bench.space.operators import MEGATRON
from lts_bench.space.patterns import DP, PP, TX, TY, fill_pattern


class Megatron(Agent):
    """Megatron's default: tp within a scale-up domain, then pp, as little of both as the memory allows; replicas.

    tp grows up to the scale-up domain and pp comes only then (Narayanan et al., arXiv 2104.04473, takeaways 1 and 2).
    Experts stay whole, as many expert ranks as the domain takes, with sequence parallelism (Megatron-LM,
    moe/README.md). It asks in that order and stops at the first strategy that fits the memory, whatever its latency;
    with flat feedback, at the first feasible one.
    """

    name, version, track, anytime = "megatron", "1", "heuristic", True
    defaults: ClassVar[dict[str, Any]] = {"attempts": 8}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Ask for one strategy after the other until one fits the memory."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        for vector in smallest_first(problem.space, features)[: self.parameters["attempts"]]:
            if problem.evaluate(vector[np.newaxis])["violation"][0, 0] == 0.0:
                return


def smallest_first(space: Space, features: Mapping[str, float]) -> np.ndarray:
    """Return the strategies (n, d) of the rules, those whose weights should fit and the smallest tp·pp in front."""
    pattern = MEGATRON_SEQUENCE if features["experts"] else MEGATRON
    vectors = fill_pattern(space, pattern, pattern)[space.degrees[:, TX] == 1]
    vectors = vectors[space.legal(vectors)]
    degrees = space.degrees[vectors[:, 0]]
    within = degrees[:, DP] * degrees[:, TY] <= features["domain_devices"]
    widest = degrees[within, TY].max(initial=1)
    return best_guess_first(space, vectors[(degrees[:, PP] == 1) | (degrees[:, TY] == widest)], features)
