"""Random legal actions of many episodes at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sample_choices(masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a choice (n,) of each row, uniform over those that the masks (n, choices) admit; each admits some."""
    rows = np.arange(len(masks) + 1) * masks.shape[1]
    admitted = np.flatnonzero(masks.view(np.bool_))
    bounds = np.searchsorted(admitted, rows)
    chosen: NDArray[np.int64] = admitted[rng.integers(bounds[:-1], bounds[1:])] - rows[:-1]
    return chosen
