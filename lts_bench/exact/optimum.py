"""The certified optimum of a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.model import CostModel
from lts_bench.cost.pool_model import PoolModel
from lts_bench.exact.pool_search import PoolSearch
from lts_bench.exact.search import SAME, Search
from lts_bench.space.disaggregated import Disaggregated
from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.pool_space import PoolSpace
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
    strategy: Strategy | Disaggregated | None
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
    if isinstance(task.cost, PoolModel) and isinstance(task.space, PoolSpace):
        return _optimum_of_pools(task, task.cost, task.space)
    assert isinstance(task.cost, CostModel)
    search = Search(task.cost, task.space)
    search.offer(megatron_vectors(task.space))
    search.offer(task.space.sample(STARTS, np.random.default_rng(0)))
    search.run()
    return _found(task, search.goodput, search.vector, search.bound)


def _optimum_of_pools(task: Task, cost: PoolModel, space: PoolSpace) -> Optimum:
    search = PoolSearch(cost, space)
    search.offer(megatron_vectors(space))
    search.offer(space.sample(STARTS, np.random.default_rng(0)))
    search.run()
    per_rate = search.goodput_of_rate
    return _found(task, per_rate * search.rate, search.vector, per_rate * search.bound)


def _found(task: Task, goodput: float, best: NDArray[np.int64] | None, bound: float) -> Optimum:
    vector = None if best is None else task.space.canonical(best)[0]
    strategy = None if vector is None else task.space.decode(vector)
    return Optimum(goodput, vector, strategy, bound)
