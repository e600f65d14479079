"""Seeded, vectorised statistics of scores: bootstrap, Wilson interval, interquartile mean, ranks with ties.

Scores are arrays ``(agents, tasks, seeds)``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 10_000
CONFIDENCE = 0.95
WILSON_Z = 1.959963984540054  # the 97.5 % point of the normal distribution


def board_score(scores: Floats) -> Floats:
    """Return per agent the mean over tasks of the mean over seeds."""
    mean: Floats = scores.mean(axis=2).mean(axis=1)
    return mean


def bootstrap(scores: Floats, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Resample the seeds of every task, the same draw for all agents, and return scores ``(agents, resamples)``.

    Differences of two agents' rows are therefore a paired bootstrap over seeds.
    """
    agents, tasks, seeds = scores.shape
    rng = np.random.default_rng(seed)
    total = np.zeros((agents, resamples))
    for task in range(tasks):
        draws = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
        # einsum, not BLAS: the same bits on every machine.
        total += np.einsum("as,rs->ar", scores[:, task], draws / seeds)
    samples: Floats = total / tasks
    return samples


def interval(samples: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the percentile interval of bootstrap samples."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's score interval of a share at 95 % (Wilson 1927)."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, WILSON_Z**2
    centre = share + z2 / (2 * trials)
    half = WILSON_Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    low, high = (centre - half) / (1 + z2 / trials), (centre + half) / (1 + z2 / trials)
    return (0.0 if successes == 0 else low), (1.0 if successes == trials else high)


def interquartile_mean(values: Floats) -> float:
    """Return the mean of the middle half of the values, those at its edges weighted by their part in it."""
    ordered = np.sort(values, axis=None)
    edges = np.arange(ordered.size + 1) / ordered.size
    weights = np.clip(edges[1:], 0.25, 0.75) - np.clip(edges[:-1], 0.25, 0.75)
    return float(2 * (weights * ordered).sum())


def ranks(samples: Floats) -> list[int]:
    """Rank agents by paired bootstrap samples ``(agents, resamples)``.

    Agents are taken from the best mean down. One shares the rank of the best agent of the rank above as long as the
    interval of their difference reaches 0; the first that does not opens a rank, which is its place: 1, 1, 3.
    """
    # Two equal rows may differ by rounding: that is no difference.
    least = 1e-12
    placed = [1] * len(samples)
    best, rank = 0, 0
    for place, agent in enumerate(np.argsort(-samples.mean(axis=1), kind="stable").tolist(), start=1):
        if place == 1 or interval(samples[best] - samples[agent])[0] > least:
            best, rank = agent, place
        placed[agent] = rank
    return placed
