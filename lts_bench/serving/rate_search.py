"""The highest rate of requests that still attains the SLOs: bracketed by doubling or halving, then bisected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TOLERANCE = 0.01
"""Relative width of the bracket at which the search ends."""
FURTHEST = 2.0**20
"""The search looks from the first rate ÷ FURTHEST to the first rate · FURTHEST."""


@dataclass(frozen=True)
class Sustained:
    """The result of a search.

    Attributes:
        scale: highest rate known to attain, in units of the first one; 0 where even the lowest rate fails.
        bounded: whether a higher rate fails; else the load can be offered at once.
        evaluations: rates that were tried.
    """

    scale: float
    bounded: bool
    evaluations: int


def highest_scale(attains: Callable[[float], bool], tolerance: float = TOLERANCE) -> Sustained:
    """Search the highest scale of a rate at which ``attains`` holds; deterministic.

    Where attainment is not monotone, it is one of the scales at which it begins to fail.

    Args:
        attains: whether the SLOs are attained at a scale of the rate.
        tolerance: the next scale that fails is at most 1 + tolerance times the result.
    """
    good, bad, tried = 0.0, 0.0, 1
    if attains(1.0):
        good = 1.0
        while good < FURTHEST and not bad:
            tried += 1
            if attains(2 * good):
                good *= 2
            else:
                bad = 2 * good
    else:
        bad = 1.0
        while bad > 1 / FURTHEST and not good:
            tried += 1
            if attains(bad / 2):
                good = bad / 2
            else:
                bad /= 2
    while good and bad and bad > good * (1 + tolerance):
        tried += 1
        middle = (good * bad) ** 0.5
        if attains(middle):
            good = middle
        else:
            bad = middle
    return Sustained(good, bool(bad), tried)
