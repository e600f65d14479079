"""Intervals of errors by a bootstrap over cells: rows of one cell err alike, so that rows would promise too much."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.report.statistics import interval

FloatArray = NDArray[np.float64]
RESAMPLES = 2000
SEED = 0
FEWEST_CELLS = 3
"""Cells below which drawing them again tells nothing."""


class Intervals(NamedTuple):
    """95 % intervals of the median and of the mean."""

    median: tuple[float, float]
    mean: tuple[float, float]


def cell_intervals(errors: FloatArray, cells: Sequence[Hashable]) -> Intervals | None:
    """Intervals of (rows,) errors, whole cells drawn with replacement; None where there are too few of them.

    Args:
        errors: absolute errors, in any unit.
        cells: the cell of each row.
    """
    place = {cell: index for index, cell in enumerate(dict.fromkeys(cells))}
    if len(place) < FEWEST_CELLS:
        return None
    random = np.random.default_rng(SEED)
    draws = random.multinomial(len(place), np.full(len(place), 1 / len(place)), size=RESAMPLES)
    order = np.argsort(errors, kind="stable")
    ranked, times = errors[order], draws[:, np.array([place[cell] for cell in cells])[order]]
    total = times.sum(axis=1)
    medians = ranked[(2 * times.cumsum(axis=1) >= total[:, None]).argmax(axis=1)]
    # einsum, not BLAS: the same bits on every machine.
    means = np.einsum("dr,r->d", times.astype(float), ranked) / total
    return Intervals(interval(medians), interval(means))
