"""What all episodes of one problem share: sizes, features and masks, looked up and never computed in a step."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.envs.common import scaled_features
from lts_bench.envs.frame import Frame
from lts_bench.problem import Problem
from lts_bench.specs.failure import InputError


class Game:
    """A problem in a frame.

    Attributes:
        problem: scores the strategies.
        reference: goodput per NPU that earns reward 1.
        name: the task's, None where the problem tells none.
        length: decisions of an episode.
        sizes: (decisions of the frame,) choices of every decision, 1 where there is none.
        features: (features,) float32, scaled.
    """

    def __init__(self, problem: Problem, reference: float, frame: Frame, name: str | None = None) -> None:
        """Fit a problem into a frame.

        Raises:
            InputError: it has more decisions, choices or features.
        """
        own = problem.space.sizes
        if not frame.fits(own.tolist()) or len(problem.features) != frame.features:
            room = (frame.sizes[0], len(frame.sizes) - 1)
            rule = f"a task is larger: {own[0]} degrees, {len(own) - 1} operators"
            raise InputError(rule, source=name, field="largest", value=room)
        self.problem, self.reference, self.frame, self.name = problem, reference, frame, name
        self.length = len(own)
        self.sizes = np.ones(len(frame.sizes), dtype=np.int64)
        self.sizes[: self.length] = own
        self.features = scaled_features(problem.features)
        self._masks = self._tabulate()

    def _tabulate(self) -> NDArray[np.bool_]:
        """(degrees + 1, decisions, widest operator) legal choices; the last row is of degrees that don't exist."""
        space, degrees, width = self.problem.space, int(self.sizes[0]), int(self.sizes[1:].max(initial=0))
        masks = np.zeros((degrees + 1, self.length, self.frame.widest_operator), dtype=np.bool_)
        for index in range(degrees):
            masks[index, :, :width] = space.mask(index)[:, :width]
        masks[degrees] = np.arange(masks.shape[2]) < self.sizes[: self.length, np.newaxis]
        return masks

    def operator_masks(self, degrees: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the legal choices (n, widest operator) of decisions (n,) under degrees (n,).

        Under degrees that don't exist, all choices that do.
        """
        last = self.sizes[0]
        return self._masks[np.where((degrees >= 0) & (degrees < last), degrees, last), positions]

    @cached_property
    def one_shot_mask(self) -> NDArray[np.int8]:
        """(Σ sizes of the frame,) choices, decision after decision, that are legal under some degrees.

        A decision that the problem doesn't have admits its choice 0, which is ignored.
        """
        parts = [np.zeros(size, dtype=np.int8) for size in self.frame.sizes]
        parts[0][: self.sizes[0]] = 1
        for position, part in enumerate(parts[1:], start=1):
            if position < self.length:
                part[:] = self._masks[:-1, position, : len(part)].any(axis=0)
            else:
                part[0] = 1
        return np.concatenate(parts)
