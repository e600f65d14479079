"""Random moves from strategies to near ones, all of which are legal."""

from __future__ import annotations

import numpy as np

from lts_bench.agents._axes import Axes
from lts_bench.space.decisions import Space
from lts_bench.space.patterns import operator_name

STEPS = np.array([0.5, 0.3, 0.2])
"""How often a neighbour differs in an operator, in the degrees, in a letter of an axis; 0.3 to 0.7, 0.2 to 0.5 and 0 to
0.4 were tried with the agent `annealing`, and none stood clear of the noise but 0 for letters, which was worse."""


def near_degrees(space: Space, degrees: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return for each row other degrees; each doubling of one of them that lies between makes them half as likely."""
    near = degrees.copy()
    for row, index in enumerate(degrees):
        likelihood = nearness(space, degrees[row : row + 1])[0]
        likelihood[index] = 0.0
        if likelihood.any():
            near[row] = rng.choice(len(likelihood), p=likelihood / likelihood.sum())
    return near


def nearness(space: Space, degrees: np.ndarray) -> np.ndarray:
    """Return (n, degrees) how near others are: 1 for the same, halved by each doubling of one of them between."""
    logarithms = np.log2(space.degrees)
    near: np.ndarray = 0.5 ** np.abs(logarithms - logarithms[degrees][:, np.newaxis]).sum(axis=2)
    return near


def operator_masks(space: Space, degrees: np.ndarray) -> np.ndarray:
    """Return (n, operators, most choices) the legal choices of every operator under each of the degrees (n,)."""
    widest = space.sizes[1:].max(initial=0)
    return np.stack([space.mask(index)[1:, :widest] for index in degrees.tolist()])


def draw_choices(space: Space, degrees: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return vectors of the degrees with a uniform choice of every operator among those that the degrees allow."""
    counts = operator_masks(space, degrees).cumsum(axis=2)
    wanted = rng.integers(counts[:, :, -1]) + 1
    drawn = (counts >= wanted[:, :, np.newaxis]).argmax(axis=2)
    return np.concatenate((degrees[:, np.newaxis], drawn), axis=1)


class Neighbours:
    """Draws neighbours: strategies that differ in one respect.

    They differ in an operator (in all layer kinds that have it, or in one), in the degrees, or in the letter of one
    axis in all operators. What a move makes illegal is repaired.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        names = [operator_name(name) for name in space.names[1:]]
        self._same = np.array([[name == other for other in names] for name in names])
        self._axes = Axes(space)

    def draw(self, vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a neighbour of each vector (n, d)."""
        step = rng.choice(len(STEPS), size=len(vectors), p=STEPS)
        moved = vectors.copy()
        moved[step == 0, 1:] = self._other_operator(vectors[step == 0], rng)
        moved[step == 1, 0] = near_degrees(self.space, vectors[step == 1, 0], rng)
        moved[step == 2, 1:] = self._other_letter(vectors[step == 2], rng)
        return self.space.repair(moved)

    def _other_operator(self, vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if not len(vectors):
            return vectors[:, 1:]
        fresh = draw_choices(self.space, vectors[:, 0], rng)[:, 1:]
        chosen = rng.integers(fresh.shape[1], size=len(fresh))
        everywhere = rng.random((len(fresh), 1)) < 0.5
        changed = np.where(everywhere, self._same[chosen], np.arange(fresh.shape[1]) == chosen[:, np.newaxis])
        own = fresh[np.arange(len(fresh)), chosen][:, np.newaxis]
        return np.where(changed, own, vectors[:, 1:])

    def _other_letter(self, vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        axes, names = (rng.integers(size, size=len(vectors)) for size in (2, len(self._axes.names)))
        return self._axes.relabelled(vectors, axes, names)[:, 1:]
