"""Robust least squares of logarithmic errors, held near what is known of the constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lts_bench.calibrate.priors import Prior

if TYPE_CHECKING:
    from collections.abc import Hashable

FloatArray = NDArray[np.float64]
Model = Callable[[Mapping[str, float]], FloatArray]

LEAST_NOISE, MOST_NOISE = 0.005, 0.08
"""Relative error of a row beyond which it is an outlier and counts less; at most between the forms' median and p90."""
ROUNDS = 4
SIGMA = 1.4826
"""Standard deviation of normal errors over the median of their size."""
FOLDS = 10
DIGITS = 4


def fit(model: Model, truth: FloatArray, known: Mapping[str, Prior], rows: Any = slice(None)) -> dict[str, float]:
    """The likeliest constants, rounded to four digits; the better the form fits, the less the priors hold.

    Args:
        model: (rows,) times of given constants.
        truth: (rows,) measured times.
        known: the constants and what is known of them; the fit starts at the centres, so it repeats exactly.
        rows: those that count.
    """
    from scipy.optimize import least_squares

    names = list(known)
    centre = np.log([known[name].centre for name in names])
    spread = np.array([known[name].spread for name in names])
    largest = np.log([known[name].largest for name in names])
    found, noise = centre, MOST_NOISE

    def errors(logarithms: FloatArray) -> FloatArray:
        times = model(dict(zip(names, np.exp(logarithms), strict=True)))
        logs: FloatArray = np.log(times / truth)[rows]
        return logs

    def residuals(logarithms: FloatArray) -> FloatArray:
        return np.concatenate((errors(logarithms) / noise, (logarithms - centre) / spread))

    for _ in range(ROUNDS):
        found = least_squares(residuals, centre, loss="soft_l1", bounds=(centre - 10, largest)).x
        noise = float(np.clip(2 * SIGMA * np.median(np.abs(errors(found))), LEAST_NOISE, MOST_NOISE))
    return {name: rounded(np.exp(value), DIGITS) for name, value in zip(names, found, strict=True)}


def rounded(value: float, digits: int = 3) -> float:
    """A number with so many significant digits."""
    return float(f"{value:.{digits}g}")


def held_out(
    model: Model, truth: FloatArray, known: Mapping[str, Prior], shapes: Sequence[Hashable]
) -> FloatArray | None:
    """(rows,) predictions of constants that were fitted without the row's shape; None where all have one shape."""
    order = {shape: place for place, shape in enumerate(sorted(set(shapes), key=repr))}
    if len(order) < 2:
        return None
    folds = np.array([order[shape] % FOLDS for shape in shapes])
    predicted = np.empty_like(truth)
    for fold in np.unique(folds):
        predicted[folds == fold] = model(fit(model, truth, known, folds != fold))[folds == fold]
    return predicted
