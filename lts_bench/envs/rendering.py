"""The strategy of an episode, as far as it is decided, for ``render``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lts_bench.problem import Problem
from lts_bench.report.strategy_text import OPEN, UNKNOWN, Sharding, strategy_text
from lts_bench.space.pool_space import PoolSpace
from lts_bench.space.strategy import Degrees
from lts_bench.specs.failure import InputError, did_you_mean

if TYPE_CHECKING:
    from lts_bench.envs.batch import Batch
    from lts_bench.space.decisions import Space

RENDER_MODES = ("ansi", "rgb_array")
DOMAIN = "domain_devices"
"""The feature with the devices of a scale-up domain."""

Picture = str | NDArray[np.uint8]


def check_render_mode(mode: str | None) -> str | None:
    """Return a mode that exists, or None.

    Raises:
        InputError: there is no such mode.
    """
    if mode is not None and mode not in RENDER_MODES:
        hint = did_you_mean(mode, RENDER_MODES)
        raise InputError(f"no such mode{hint}", field="render_mode", value=mode, legal=RENDER_MODES)
    return mode


def render(mode: str, batch: Batch, row: int) -> Picture:
    """Return an episode's strategy so far: text, or an image (height, width, 3)."""
    problem = batch.game(row).problem
    decided = batch.vectors[row, : int(batch.positions[row])]
    parts = [strategy_so_far(*part) for part in pools_so_far(problem.space, decided)]
    domain = domain_devices(problem)
    if mode == "ansi":
        return "\n".join(strategy_text(*part, domain) for part in parts)
    from lts_bench.report.strategy_drawing import strategy_image

    return np.concatenate([strategy_image(*part, domain) for part in parts])


def pools_so_far(space: Space, decided: NDArray[np.int64]) -> list[tuple[Space, NDArray[np.int64]]]:
    """Return every pool's space with what is decided of it; the space itself where there are no pools."""
    if not isinstance(space, PoolSpace):
        return [(space, decided)]
    middle = len(space.parts[0].names)
    pair = space.pairs[decided[0]] if len(decided) and 0 <= decided[0] < len(space.pairs) else (-1, -1)
    letters = decided[1:middle], decided[middle:]
    return [
        (part, np.array([degrees, *own], dtype=np.int64)[: len(own) + min(len(decided), 1)])
        for part, degrees, own in zip(space.parts, pair, letters, strict=True)
    ]


def strategy_so_far(space: Space, decided: NDArray[np.int64]) -> tuple[Degrees | None, Sharding]:
    """Return the degrees, None while open, and the letters of every operator, after the first decisions.

    Args:
        space: of the strategy.
        decided: (k,) the choices of the first k decisions.
    """
    degrees = None
    if len(decided) and 0 <= decided[0] < len(space.degrees):
        degrees = Degrees(*map(int, space.degrees[decided[0]]))
    sharding = {}
    for position, (key, choices) in enumerate(zip(space.names[1:], space.choices[1:], strict=True), start=1):
        axes = choices[0].count(",") + 1
        if position >= len(decided):
            sharding[key] = (OPEN,) * axes
        elif 0 <= decided[position] < len(choices):
            sharding[key] = tuple(choices[decided[position]].split(","))
        else:
            sharding[key] = (UNKNOWN,) * axes
    return degrees, sharding


def domain_devices(problem: Problem) -> int | None:
    """Return the devices of a scale-up domain, which the features tell; None where they don't."""
    known = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
    return int(known[DOMAIN]) if DOMAIN in known else None
