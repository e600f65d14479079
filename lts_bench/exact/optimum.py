"""The certified optimum of a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.exact.search import SAME, Search
from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.strategy import Strategy
from lts_bench.task import Task

STARTS = 4096
"""Random strategies that the search begins with, beside those of Megatron's pattern."""


@dataclass(frozen=True)
class Optimum:
    """The best strategy of a task, and the proof that it is.

    Attributes:
        goodput_per_npu: tokens/s and NPU, 0 where no strategy is feasible.
        vector: (decisions,) of the strategy, None where none is feasible.
        strategy: the same, decoded.
        bound: goodput per NPU that no strategy exceeds.
    """

    goodput_per_npu: float
    vector: NDArray[np.int64] | None
    strategy: Strategy | None
    bound: float

    @property
    def certified(self) -> bool:
        """Whether the bound is reached."""
        return self.bound <= self.goodput_per_npu * (1 + SAME)


def optimum(task: Task) -> Optimum:
    """The best strategy of a task's space.

    Raises:
        InputError: where nothing can be compiled.
    """
    search = Search(task.cost, task.space)
    search.offer(megatron_vectors(task.space))
    search.offer(task.space.sample(STARTS, np.random.default_rng(0)))
    search.run()
    vector = None if search.vector is None else task.space.canonical(search.vector)[0]
    strategy = None if vector is None else task.space.decode(vector)
    return Optimum(search.goodput, vector, strategy, search.bound)
