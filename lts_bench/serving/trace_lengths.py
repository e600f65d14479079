"""Lengths of made requests: fixed, lognormal, or drawn from a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.trace import Trace
from lts_bench.specs.failure import InputError

Tokens = NDArray[np.int64]
LONGEST = 2**31 - 1


def require(holds: bool, field: str, value: Any, rule: str) -> None:
    """Raise an ``InputError`` unless a parameter keeps its rule."""
    if not holds:
        raise InputError(rule, field=field, value=value)


class Distribution(Protocol):
    """A distribution of a prompt's or an output's length."""

    def tokens(self, count: int, rng: np.random.Generator) -> Tokens:
        """Return (count,) tokens, each at least 1."""


class Lengths(Protocol):
    """A joint distribution of prompt and output lengths."""

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Return (count,) tokens of prompts and (count,) of outputs, each at least 1."""


@dataclass(frozen=True)
class Fixed:
    """All of one length."""

    length: int

    def __post_init__(self) -> None:
        require(self.length >= 1, "length", self.length, "must be ≥ 1")

    def tokens(self, count: int, rng: np.random.Generator) -> Tokens:
        """Return the length ``count`` times."""
        return np.full(count, self.length, dtype=np.int64)


@dataclass(frozen=True)
class LogNormal:
    """exp of a normal distribution, rounded, and cut to 1 … ``longest``.

    Attributes:
        median: in tokens.
        sigma: standard deviation of the logarithm.
        longest: such as the context of the model.
    """

    median: float
    sigma: float
    longest: int = LONGEST

    def __post_init__(self) -> None:
        require(0 < self.median < inf, "median", self.median, "must be a positive number")
        require(0 <= self.sigma < inf, "sigma", self.sigma, "must be a number ≥ 0")
        require(self.longest >= 1, "longest", self.longest, "must be ≥ 1")

    @classmethod
    def from_mean(cls, mean: float, median: float, longest: int = LONGEST) -> LogNormal:
        """Fit mean and median: mean = median · exp(σ² / 2)."""
        require(0 < median <= mean < inf, "mean", mean, f"must be ≥ the median, {median:g}, which must be > 0")
        return cls(median, sqrt(2 * log(mean / median)), longest)

    @classmethod
    def from_percentiles(cls, percentiles: Mapping[float, float], longest: int = LONGEST) -> LogNormal:
        """Fit two or more percentiles, such as ``{50: 1020, 90: 2735, 99: 4142}``: least squares of the logarithms."""
        require(len(percentiles) >= 2, "percentiles", dict(percentiles), "must be two or more")
        for percent, value in percentiles.items():
            rule = "must be percent in (0, 100) → a positive number"
            require(0 < percent < 100 and 0 < value < inf, "percentiles", {percent: value}, rule)
        values = [percentiles[percent] for percent in sorted(percentiles)]
        require(values == sorted(values), "percentiles", dict(percentiles), "must not fall")
        z = [NormalDist().inv_cdf(percent / 100) for percent in sorted(percentiles)]
        sigma, mu = np.polyfit(z, np.log(values), 1)
        # Equal percentiles may give a slope of −1e-17.
        return cls(exp(mu), max(float(sigma), 0.0), longest)

    def tokens(self, count: int, rng: np.random.Generator) -> Tokens:
        """Draw lengths."""
        drawn = self.median * np.exp(self.sigma * rng.standard_normal(count))
        return np.clip(np.rint(drawn), 1, self.longest).astype(np.int64)


@dataclass(frozen=True)
class Independent:
    """Prompts and outputs have nothing to do with each other."""

    prompt: Distribution
    output: Distribution

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Draw prompts, then outputs."""
        return self.prompt.tokens(count, rng), self.output.tokens(count, rng)


@dataclass(frozen=True)
class Resampled:
    """Requests of a trace, drawn with replacement: prompt and output stay together, shared prefixes don't."""

    trace: Trace

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
        """Draw requests."""
        drawn = rng.integers(len(self.trace), size=count)
        return self.trace.prompt_tokens[drawn], self.trace.output_tokens[drawn]
