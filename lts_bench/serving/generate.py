"""Made traces: requests that arrive by a process, with lengths from a distribution or another trace."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_lengths import Lengths, require


class Arrivals(Protocol):
    """A process of arrivals."""

    def gaps_s(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return (count,) seconds from each request to the next."""


@dataclass(frozen=True)
class Gamma:
    """Independent gaps between requests, gamma distributed; a Poisson process where ``cv`` is 1.

    Attributes:
        requests_per_s: mean rate.
        cv: standard deviation ÷ mean of the gaps: 0 is a steady beat, above 1 are bursts; 0 or at least 1e-6.
    """

    requests_per_s: float
    cv: float = 1.0

    def __post_init__(self) -> None:
        require(0 < self.requests_per_s < inf, "requests_per_s", self.requests_per_s, "must be a positive number")
        require(self.cv == 0 or 1e-6 <= self.cv < inf, "cv", self.cv, "must be 0 or a number ≥ 1e-6")

    def gaps_s(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw from Gamma(1 / cv², cv² / rate)."""
        if self.cv == 0:
            return np.full(count, 1 / self.requests_per_s)
        return rng.gamma(self.cv**-2, self.cv**2 / self.requests_per_s, count)


@dataclass(frozen=True)
class OnOff:
    """Bursts: a Poisson process that is on and off in turn, for exponentially distributed times.

    Attributes:
        requests_per_s: mean rate over on and off.
        on_s: mean time on.
        off_s: mean time off.
    """

    requests_per_s: float
    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        for name in ("requests_per_s", "on_s", "off_s"):
            require(0 < getattr(self, name) < inf, name, getattr(self, name), "must be a positive number")

    def gaps_s(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw how often it is switched off before each request, then the time on and the time off.

        While it is on, requests and switches are two Poisson processes: the switches before a request are geometric,
        and the events before it, itself included, come at the sum of both rates.
        """
        rate_on = self.requests_per_s * (self.on_s + self.off_s) / self.on_s
        events_per_s = rate_on + 1 / self.on_s
        switches = rng.geometric(rate_on / events_per_s, count) - 1
        return rng.gamma(switches + 1, 1 / events_per_s) + rng.gamma(switches, self.off_s)


def poisson(requests_per_s: float) -> Gamma:
    """A Poisson process: independent, exponentially distributed gaps."""
    return Gamma(requests_per_s, cv=1.0)


def generate(arrivals: Arrivals, lengths: Lengths, count: int, seed: int) -> Trace:
    """Make a trace; same arguments, same bits.

    Arrivals and lengths have random streams of their own: one seed gives the same lengths at every rate, and of
    ``Gamma`` the same arrivals but for the scale.

    Args:
        arrivals: such as ``poisson(2.5)``.
        lengths: such as ``Independent(Fixed(1024), LogNormal.from_mean(211, 129))`` or ``Resampled(trace)``.
        count: requests.
        seed: of both streams, ≥ 0.

    Raises:
        InputError: count or seed are out of range.
    """
    require(count >= 1, "count", count, "must be ≥ 1")
    require(seed >= 0, "seed", seed, "must be ≥ 0")
    of_arrivals, of_lengths = np.random.default_rng(seed).spawn(2)
    arrival_s = np.concatenate([[0.0], np.cumsum(arrivals.gaps_s(count - 1, of_arrivals))])
    prompt_tokens, output_tokens = lengths.draw(count, of_lengths)
    return Trace(arrival_s, prompt_tokens, output_tokens)
