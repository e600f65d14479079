"""The steps whose times a replay interpolates between, as phases that are priced together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.phases import PREFILL, Phases, batch_ladder
from lts_bench.specs.workload import Workload

FloatArray = NDArray[np.float64]
SHORT_PROMPT = 64
"""Tokens of a prompt whose attention is negligible: prompts of this length give the time of tokens without it."""
WHOLE, SHORT = range(2)
"""Prefills of one prompt of so many tokens, and of as many tokens in short prompts."""


def token_grid(longest: int) -> NDArray[np.int64]:
    """Powers of 2 up to ``SHORT_PROMPT``, then multiples of it in steps of about √2 until ``longest`` is covered."""
    short = 2 ** np.arange(SHORT_PROMPT.bit_length())
    steps = 2 * max(int(np.ceil(np.log2(longest / SHORT_PROMPT))), 1) if longest > SHORT_PROMPT else 2
    return np.unique(np.concatenate([short, SHORT_PROMPT * np.rint(2 ** (np.arange(steps + 1) / 2)).astype(np.int64)]))


@dataclass(frozen=True, kw_only=True)
class Steps(Phases):
    """Steps on a grid of tokens.

    First prefills: whole and in short prompts, of all ranks and of one. Then decodes, by context and rows. The last
    step is a short prompt beside ``SHORT_PROMPT`` rows.

    Attributes:
        grid: (points,) ascending, with ``SHORT_PROMPT``; contexts are one token longer.
        rungs: (rungs,) rows of a decode, ascending, with ``SHORT_PROMPT``.
    """

    grid: NDArray[np.int64]
    rungs: NDArray[np.int64]

    @classmethod
    def up_to(cls, workload: Workload, *, rows: int, longest: int) -> Steps:
        """Steps of at most ``rows`` rows and ``longest`` tokens."""
        grid, rungs = token_grid(longest), np.union1d(batch_ladder(rows), [SHORT_PROMPT])
        decoded = np.concatenate([np.zeros(4 * len(grid) - 2, np.int64), np.tile(rungs, len(grid)), [SHORT_PROMPT]])
        return cls(workload=workload, batches=decoded, grid=grid, rungs=rungs)

    @cached_property
    def prompts_of(self) -> NDArray[np.int64]:
        """(points, 2, 2) prompts of a prefill: whole and short, of all ranks and of one."""
        short = np.maximum(self.grid // SHORT_PROMPT, 1)
        return np.stack([np.ones_like(short), short], axis=1)[:, :, None].repeat(2, axis=2)

    @cached_property
    def prefilled(self) -> FloatArray:
        """(phases,) prompts of the rank that has the most."""
        decodes = np.zeros(self.grid.size * self.rungs.size)
        return np.concatenate([self.prompts_of.ravel(), decodes, [1.0]])

    @cached_property
    def prompt_tokens(self) -> FloatArray:
        """(phases,) tokens of a prompt."""
        each = self.grid[:, None, None] // self.prompts_of
        return np.concatenate([each.ravel(), self._decoded_contexts, [float(SHORT_PROMPT)]])

    @cached_property
    def contexts(self) -> FloatArray:
        """(phases,) tokens that a decoded one attends to."""
        prefills = np.repeat(self.grid + 1.0, self.prompts_of[0].size)
        return np.concatenate([prefills, self._decoded_contexts, [SHORT_PROMPT + 1.0]])

    @property
    def _decoded_contexts(self) -> FloatArray:
        return np.repeat(self.grid + 1.0, self.rungs.size)

    @cached_property
    def on_one_rank(self) -> NDArray[np.bool_]:
        """(phases,) whether one rank prefills: alone, or in a mixed step."""
        alone = np.ones(len(self), dtype=np.bool_)
        alone[PREFILL : self.prompts_of.size : 2] = False
        return alone

    @property
    def beside(self) -> tuple[slice, slice]:
        """The last step, and its rows alone."""
        point, rung = (int(np.searchsorted(each, SHORT_PROMPT)) for each in (self.grid, self.rungs))
        alone = self.prompts_of.size + point * self.rungs.size + rung
        return slice(len(self) - 1, None), slice(alone, alone + 1)

    def arranged(self, seconds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split (2, phases) times of steps.

        Returns:
            (2, whole or short, all ranks or one, points) of prefills, (2, rungs, points) of decodes, (2,) of the last.
        """
        prefills, decodes = np.split(seconds[:, :-1], [self.prompts_of.size], axis=1)
        points = self.grid.size
        ordered = np.moveaxis(prefills.reshape(2, points, 2, 2), 1, 3)
        return ordered, decodes.reshape(2, points, -1).swapaxes(1, 2), seconds[:, -1]
