"""Seeded, vectorised statistics of scores: bootstrap, Wilson interval, interquartile mean, ranks with ties, P(A > B).

Scores are arrays ``(agents, tasks, seeds)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 10_000
CONFIDENCE = 0.95
WILSON_Z = 1.959963984540054  # the 97.5 % point of the normal distribution
SAME = 1e-12
"""Scores that differ by rounding alone are equal."""


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
    placed = [1] * len(samples)
    best, rank = 0, 0
    for place, agent in enumerate(np.argsort(-samples.mean(axis=1), kind="stable").tolist(), start=1):
        if place == 1 or interval(samples[best] - samples[agent])[0] > SAME:
            best, rank = agent, place
        placed[agent] = rank
    return placed


def improvement(scores: Floats) -> Floats:
    """Return the probability of improvement P(row > column), ``(agents, agents)``.

    Agents are compared cell by cell, on the same task and machine; equal scores count one half (Agarwal et al. 2021,
    who compare all pairs of seeds, as theirs share nothing).
    """
    cells = _by_cell(scores)
    wins = np.empty((len(cells), len(cells)))
    for row, mine in enumerate(cells):
        more = mine - cells
        wins[row] = ((more > SAME) + 0.5 * (np.abs(more) <= SAME)).mean(axis=1)
    return wins


def profile(scores: Floats, thresholds: Floats) -> Floats:
    """Return performance profiles ``(agents, thresholds)``: the share of cells whose score reaches each threshold."""
    ordered = np.sort(_by_cell(scores), axis=1)
    below = np.array([np.searchsorted(mine, thresholds - SAME) for mine in ordered])
    reached: Floats = 1 - below.reshape(len(scores), len(thresholds)) / ordered.shape[1]
    return reached


def _by_cell(scores: Floats) -> Floats:
    """Return scores ``(agents, cells)``."""
    agents, tasks, seeds = scores.shape
    return scores.reshape(agents, tasks * seeds)


def log_area(firsts: Floats, limit: int) -> float:
    """Return the area under the ECDF of first evaluations over log evaluations from 1 to ``limit``, as a share of all.

    Args:
        firsts: the evaluation, from 1, that reached each target; infinite where none did.
        limit: the budget, above 1.
    """
    return float(np.clip(1 - np.log(firsts) / math.log(limit), 0.0, None).mean())


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other beats in one coordinate and equals in the other, by rising x."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(points), key=lambda point: (-point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front[::-1]
