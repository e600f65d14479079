"""What a step of serving holds: one prompt a data-parallel rank, or one token of each of b sequences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.specs.engine import Engine
from lts_bench.specs.workload import Workload

FloatArray = NDArray[np.float64]
PREFILL, LONE_PREFILL, FIRST_RUNG = range(3)
"""Phases: all data-parallel ranks prefill a prompt each, one does and the others wait, then the rungs of the ladder."""


def batch_ladder(largest: int) -> NDArray[np.int64]:
    """Batch sizes 1 to ``largest`` in steps of 2^(1/4), as distinct integers."""
    steps = np.arange(int(np.ceil(4 * np.log2(max(largest, 1)))) + 1)
    rungs = np.minimum(np.rint(2 ** (steps / 4)), largest).astype(np.int64)
    return np.unique(np.append(rungs, largest))


@dataclass(frozen=True)
class Phases:
    """The tabulated phases of a workload under an engine.

    Attributes:
        batches: (rungs,) decoding sequences of one data-parallel rank and microbatch.
    """

    workload: Workload
    batches: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload, engine: Engine) -> Phases:
        """Phases of a workload up to the engine's largest batch."""
        return cls(workload, batch_ladder(engine.max_batch))

    def __len__(self) -> int:
        return FIRST_RUNG + len(self.batches)

    @cached_property
    def tokens(self) -> FloatArray:
        """(phases,) new tokens of one data-parallel rank."""
        return np.concatenate(([float(self.workload.isl)] * FIRST_RUNG, self.batches.astype(float)))

    @cached_property
    def sequences(self) -> FloatArray:
        """(phases,) sequences of one data-parallel rank."""
        return np.concatenate(([1.0] * FIRST_RUNG, self.batches.astype(float)))

    @property
    def mean_context(self) -> float:
        """Tokens of a sequence in the mean of its decoding: isl + osl / 2."""
        return self.workload.isl + self.workload.osl / 2

    @property
    def full_context(self) -> float:
        """Tokens of a finished sequence."""
        return float(self.workload.isl + self.workload.osl)
