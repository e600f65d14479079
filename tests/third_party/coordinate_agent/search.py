"""Coordinate search: one decision at a time, all its choices at once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.problem import Problem


class Coordinate(Agent):
    """Tries every choice of one decision of the best strategy, then of the next."""

    name, version, track, anytime = "coordinate", "1", "search", True
    defaults: ClassVar[dict[str, int]] = {"start": 40}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Begin with the best of some random strategies; what was tried is never tried again."""
        space, tried = problem.space, set()
        best, value = None, -np.inf
        batch = space.sample(self.parameters["start"], rng)
        while problem.remaining:
            for vector in batch:
                answer = problem.evaluate(vector[np.newaxis])[0]
                tried.add(vector.tobytes())
                found = answer["goodput_per_npu"] if answer["feasible"] else -answer["violation"].sum()
                if best is None or found > value:
                    best, value = vector, found
            decision = int(rng.integers(len(space.sizes)))
            variants = np.repeat(best[np.newaxis], space.sizes[decision], axis=0)
            variants[:, decision] = np.arange(space.sizes[decision])
            fresh = [each for each in space.repair(variants) if each.tobytes() not in tried]
            batch = np.array(fresh) if fresh else space.sample(1, rng)
