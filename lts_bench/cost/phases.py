"""What a step of serving holds: prompts to prefill, one token of each of b sequences, or both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.specs.engine import Engine
from lts_bench.specs.workload import Workload

FloatArray = NDArray[np.float64]
PREFILL, LONE_PREFILL, FIRST_RUNG = range(3)
"""Phases: all data-parallel ranks prefill, one does and the others wait; then the rungs of the ladder, decoding; then,
where an engine mixes prefill into decode steps, the rungs again with a prompt on one rank."""


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
        mixed: whether there are mixed steps.
        prompts: prompts of a rank in a prefill step.
    """

    workload: Workload
    batches: NDArray[np.int64]
    mixed: bool = False
    prompts: int = 1

    @classmethod
    def of(cls, workload: Workload, engine: Engine) -> Phases:
        """Phases of a workload up to the engine's largest batch."""
        return cls(workload, batch_ladder(engine.max_batch), engine.mixed_prefill)

    def __len__(self) -> int:
        return FIRST_RUNG + (2 if self.mixed else 1) * len(self.batches)

    @property
    def decode(self) -> slice:
        """The phases that decode and do nothing else."""
        return slice(FIRST_RUNG, FIRST_RUNG + len(self.batches))

    @cached_property
    def prefilled(self) -> FloatArray:
        """(phases,) prompts of the rank that has the most."""
        rungs = np.zeros(len(self.batches))
        return np.concatenate(([float(self.prompts)] * FIRST_RUNG, rungs, np.ones(len(rungs) * self.mixed)))

    @cached_property
    def decoded(self) -> FloatArray:
        """(phases,) sequences of a rank that get a token."""
        rungs = self.batches.astype(float)
        return np.concatenate(([0.0] * FIRST_RUNG, rungs, rungs if self.mixed else []))

    @cached_property
    def sequences(self) -> FloatArray:
        """(phases,) sequences of the fullest rank."""
        return self.prefilled + self.decoded

    @cached_property
    def prompt_tokens(self) -> FloatArray:
        """(phases,) tokens of a prompt."""
        return np.full(len(self), float(self.workload.isl))

    @cached_property
    def contexts(self) -> FloatArray:
        """(phases,) tokens that a decoded one attends to."""
        return np.full(len(self), self.mean_context)

    @property
    def prompting(self) -> NDArray[np.int64]:
        """Indices of the phases that hold prompts."""
        return np.flatnonzero(self.prefilled > 0)

    @property
    def beside(self) -> tuple[slice, slice]:
        """Phases with prompts beside decoded sequences, and those with the latter alone."""
        return slice(self.decode.stop, None), slice(self.decode.start, self.decode.stop if self.mixed else FIRST_RUNG)

    @cached_property
    def tokens(self) -> FloatArray:
        """(phases,) new tokens of the fullest rank."""
        return self.prefilled * self.prompt_tokens + self.decoded

    def tokens_of(self, ranks: FloatArray) -> FloatArray:
        """(…, phases) new tokens of ``ranks`` (…, 1) data-parallel ranks together."""
        prefilling = np.where(self.on_one_rank, 1.0, ranks) * self.prefilled
        together: FloatArray = prefilling * self.prompt_tokens + ranks * self.decoded
        return together

    @cached_property
    def on_one_rank(self) -> NDArray[np.bool_]:
        """(phases,) whether one rank prefills: alone, or in a mixed step."""
        alone = self.decoded > 0
        alone[LONE_PREFILL] = True
        return alone

    @property
    def mean_context(self) -> float:
        """Tokens of a sequence in the mean of its decoding: isl + osl / 2."""
        return self.workload.isl + self.workload.osl / 2

    @property
    def full_context(self) -> float:
        """Tokens of a finished sequence."""
        return float(self.workload.isl + self.workload.osl)
