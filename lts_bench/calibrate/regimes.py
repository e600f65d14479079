"""Fits affine regimes to measured times: least squares on the logarithm of the error, robust against outliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from lts_bench.calibrate.fit import SIGMA
from lts_bench.validate.table import error_statistics

FloatArray = NDArray[np.float64]
Model = Callable[[FloatArray], FloatArray]
TYPICAL_ERROR = 0.05
"""Relative error beyond which a measurement counts as an outlier."""
PULL = 1e-3
"""Weight that holds a parameter of which no measurement tells where it began."""

REPORTED = ("rows", "median_error_percent", "p90_error_percent")
"""Statistics that a line of a report tells."""


def fit_log(
    model: Model, measured: FloatArray, starts: FloatArray, bounds: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Parameters at which ``model`` is closest to what was measured.

    Args:
        model: (parameters,) to (rows,) times, all positive.
        measured: (rows,) times in the same unit.
        starts: (starts, parameters) where the search begins; the best end is taken.
        bounds: (parameters,) least and largest values.

    Returns:
        (parameters,) that minimise the soft absolute value of log(predicted / measured).
    """

    def end(start: FloatArray) -> Any:
        def residuals(x: FloatArray) -> FloatArray:
            return np.append(np.log(model(x) / measured), PULL * (x - start))

        return least_squares(residuals, start, bounds=bounds, loss="soft_l1", f_scale=TYPICAL_ERROR, max_nfev=300)

    best: FloatArray = min((end(np.clip(start, *bounds)) for start in starts), key=lambda found: float(found.cost)).x
    return best


def relative_error(ratio: FloatArray) -> float:
    """Standard deviation of log(predicted / measured) from the median of its size, so that outliers weigh little."""
    return float(SIGMA * np.median(np.abs(np.log(ratio))))


def found(kind: str, what: str, truth: FloatArray, predicted: FloatArray) -> dict[str, Any]:
    """One line of a calibration's report: the rows of a fit and its median and 90th percentile error in %."""
    errors = error_statistics(truth.tolist(), predicted.tolist())
    return {"kind": kind, "library": what} | {name: errors[name] for name in REPORTED}
