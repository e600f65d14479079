"""Random edits of strategies that carry the letters of an axis, or of a run of operators, from one to another."""

from __future__ import annotations

import numpy as np

from lts_bench.agents._axes import Axes
from lts_bench.agents._flow import Flow
from lts_bench.agents._moves import draw_choices, nearness, operator_masks
from lts_bench.space.decisions import Space
from lts_bench.space.patterns import operator_name

FLOW, DEGREES_AND_FLOW, DEGREES, OPERATOR, LETTER, LETTER_RUN, PATTERN, PATTERN_RUN, OWN, OWN_RUN, DEGREES_AND_AXES = (
    range(11)
)
"""Kinds of edits: letters of a run of operators on an axis that fit together, of the same or of near degrees; other
near degrees; an operator, in one layer kind or in all; one letter on an axis in all operators or in a run of them; the
letters that another strategy has on an axis, likewise; those of the strategy's own other axis, likewise; near degrees,
whose axes take the letters of other strategies' axes."""
SHARES = np.array([0.48, 0.12, 0.1, 0.132, 0.032, 0.032, 0.032, 0.016, 0.012, 0.02, 0.024])
"""How often an edit is of each kind."""
AGAIN = 0.1
"""How likely an edit is followed by another."""
LONGEST = 5
"""Operators in a run; letters that fit together are drawn for runs of any length."""
TAKEN = 0.75
"""How likely an axis takes another strategy's letters where the degrees change with it."""


class Proposals:
    """Draws edits of strategies. What an edit makes illegal is repaired.

    What suits one axis of a mesh often suits another one, of other sizes too. Operators in a row depend on each other:
    where all must change their letters together, none of them can do so alone.
    """

    def __init__(self, space: Space) -> None:
        self._space, self._axes = space, Axes(space)
        self._flow = Flow(space, self._axes)
        names = [operator_name(name) for name in space.names[1:]]
        self._same = np.array([[name == other for other in names] for name in names])

    def draw(self, vectors: np.ndarray, elites: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return an edit of each vector (n, d), canonical; letters are taken from the elites (k, d)."""
        patterns, edited = self._patterns(elites), vectors.copy()
        going = np.ones(len(edited), dtype=np.bool_)
        while going.any():
            edited[going] = self._edited(edited[going], patterns, rng)
            going &= rng.random(len(edited)) < AGAIN
        return self._space.canonical(edited)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return random strategies (n, d) whose operators fit together, canonical."""
        vectors = self._space.sample(n, rng)
        letters = self._axes.letters(vectors)
        everywhere = np.ones(letters.shape[:2], dtype=np.bool_)
        for axis in (0, 1):
            letters[..., axis] = self._flow.redrawn(letters[..., axis], everywhere, rng)
        return self._space.canonical(self._space.repair(self._axes.written(vectors, letters)))

    def _patterns(self, elites: np.ndarray) -> np.ndarray:
        """Return (p, operators) the letters of strategies on axes that split something; at least one pattern."""
        letters = np.moveaxis(self._axes.letters(elites), 1, 2).reshape(2 * len(elites), -1)
        split = ~np.isin(letters, (self._axes.names.index("R"), len(self._axes.names))).all(axis=1)
        return letters[split] if split.any() else letters[:1]

    def _edited(self, vectors: np.ndarray, patterns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        kinds, edited = rng.choice(len(SHARES), size=len(vectors), p=SHARES), vectors.copy()
        edited[kinds == OPERATOR, 1:] = self._other_operator(vectors[kinds == OPERATOR], rng)
        moved = np.isin(kinds, (DEGREES, DEGREES_AND_FLOW, DEGREES_AND_AXES))
        edited[moved, 0] = self._near_degrees(vectors[moved, 0], rng)
        flowing, relettered = kinds <= DEGREES_AND_FLOW, kinds >= LETTER
        edited[flowing] = self._axes.written(edited[flowing], self._flowed(edited[flowing], rng))
        letters = self._lettered(edited[relettered], kinds[relettered], patterns, rng)
        edited[relettered] = self._axes.written(edited[relettered], letters)
        return self._space.repair(edited)

    def _other_operator(self, vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return choices (n, operators) with a new one of an operator."""
        if not len(vectors):
            return vectors[:, 1:]
        rows, fresh = np.arange(len(vectors)), draw_choices(self._space, vectors[:, 0], rng)[:, 1:]
        free = operator_masks(self._space, vectors[:, 0]).sum(axis=2) > 1
        at = np.where(free, rng.random(free.shape), -1.0).argmax(axis=1)
        alone, everywhere = np.arange(fresh.shape[1]) == at[:, np.newaxis], rng.random((len(rows), 1)) < 0.5
        changed = np.where(everywhere, self._same[at], alone)
        return np.where(changed, fresh[rows, at][:, np.newaxis], vectors[:, 1:])

    def _near_degrees(self, degrees: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return other degrees (n,); each doubling of one of them that lies between makes them half as likely."""
        near = degrees.copy()
        for index in np.unique(degrees):
            likely = nearness(self._space, np.array([index]))[0]
            likely[index] = 0.0
            if likely.any():
                here = degrees == index
                near[here] = rng.choice(len(likely), size=int(here.sum()), p=likely / likely.sum())
        return near

    def _flowed(self, vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return (n, operators, 2) letters, those of a run on an axis drawn anew."""
        letters = self._axes.letters(vectors)
        rows, axis = np.arange(len(letters)), rng.integers(2, size=len(letters))
        where = _runs(len(rows), letters.shape[1], letters.shape[1], rng)
        letters[rows, :, axis] = self._flow.redrawn(letters[rows, :, axis], where, rng)
        return letters

    def _lettered(
        self, vectors: np.ndarray, kinds: np.ndarray, patterns: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return (n, operators, 2) letters, new ones on an axis, or on both where the degrees changed."""
        letters = self._axes.letters(vectors)
        rows, operators = np.arange(len(letters)), letters.shape[1]
        source = patterns[rng.integers(len(patterns), size=(2, len(rows)))]
        uniform = rng.integers(len(self._axes.names), size=(len(rows), 1))
        source[0] = np.where(np.isin(kinds, (LETTER, LETTER_RUN))[:, np.newaxis], uniform, source[0])
        where = (
            _runs(len(rows), operators, LONGEST, rng)
            | ~np.isin(kinds, (LETTER_RUN, PATTERN_RUN, OWN_RUN))[:, np.newaxis]
        )
        axis, both = rng.integers(2, size=len(rows)), kinds == DEGREES_AND_AXES
        own = np.isin(kinds, (OWN, OWN_RUN))
        source[0, own] = letters[rows, :, 1 - axis][own]
        taking = (axis == [[0], [1]]) & ~both | both & (rng.random((2, len(rows))) < TAKEN)
        for each in (0, 1):
            new = np.where(both[:, np.newaxis], source[each], source[0])
            letters[..., each] = np.where(where & taking[each][:, np.newaxis], new, letters[..., each])
        return letters


def _runs(n: int, operators: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Return (n, operators) runs of 2 to ``longest`` operators."""
    lengths = rng.integers(2, longest + 1, size=n).clip(max=operators)
    starts = rng.integers(operators - lengths + 1)[:, np.newaxis]
    at = np.arange(operators)
    runs: np.ndarray = (at >= starts) & (at < starts + lengths[:, np.newaxis])
    return runs
