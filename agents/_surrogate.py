"""A Gaussian process on strategies whose kernel falls with the number of letters that differ.

Strategies are one-hot letters of every operator on every axis and logarithms of the degrees, so that a squared
exponential kernel is the exponentiated Hamming kernel of categorical spaces (CASMOPOLITAN, arXiv 2102.07188). Values
count by their order: infeasible strategies, which are below all feasible ones, need no scale of their own.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from lts_bench.space.decisions import Space

NOISE = 0.01
"""Variance of what the kernel does not explain, of scores with variance 1."""


class Encoding:
    """Strategies as points: degrees by their logarithms, operators by one-hot letters of every axis."""

    def __init__(self, space: Space) -> None:
        self._degrees = np.log2(space.degrees) / 2.0
        letters = sorted({letter for labels in space.choices[1:] for label in labels for letter in label.split(",")})
        self._tables = [_letters(labels, letters) for labels in space.choices[1:]]

    def of(self, vectors: np.ndarray) -> np.ndarray:
        """Return points (n, coordinates); letters of one axis that differ are a distance of 1 apart."""
        tables = [table[choices] for table, choices in zip(self._tables, vectors[:, 1:].T, strict=True)]
        return np.concatenate([self._degrees[vectors[:, 0]], *tables], axis=1)


def _letters(labels: tuple[str, ...], letters: list[str]) -> np.ndarray:
    """Return (choices, axes · letters) which letter a choice has on each axis, √½ for a 1."""
    axes = [[part == letter for part in label.split(",") for letter in letters] for label in labels]
    points: np.ndarray = np.array(axes) * np.sqrt(0.5)
    return points


def normal_scores(found: np.ndarray) -> np.ndarray:
    """Return values as quantiles of a normal distribution."""
    scores: np.ndarray = norm.ppf((rankdata(found) - 0.5) / len(found))
    return scores


def fitted(points: np.ndarray, scores: np.ndarray, length: float) -> GaussianProcessRegressor:
    """Return the process given points (n, coordinates), no two alike, and their scores (n,)."""
    return GaussianProcessRegressor(RBF(length) + WhiteKernel(NOISE), optimizer=None).fit(points, scores)


def expected_improvement(process: GaussianProcessRegressor, points: np.ndarray) -> np.ndarray:
    """Return (n,) by how much points are expected to exceed the best score that the process was given."""
    mean, deviation = process.predict(points, return_std=True)
    gain = (mean - process.y_train_.max()) / deviation
    improvement: np.ndarray = deviation * (gain * norm.cdf(gain) + norm.pdf(gain))
    return improvement
