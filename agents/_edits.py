"""All edits of some strategies, and how likely each is tried before anything is learned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.agents._history import History
from lts_bench.agents._neighbourhoods import Neighbourhoods
from lts_bench.space.decisions import Space

SHARES = (0.3, 0.3, 0.1, 0.1, 0.03, 0.07, 0.1)
"""How often, before anything is learned, an edit is one of the degrees, of an operator in one layer kind, of an
operator in all that have it, of a letter on an axis, of axes exchanged, of letters copied to the other axis in a few
operators, of letters taken from another elite."""


class Edits(NamedTuple):
    """Edits of strategies, the starts.

    Attributes:
        vectors: (n, d) what the edits make of the starts, all legal.
        starts: (n,) which start each begins from.
        kinds: (n,) what each changes; every operator is a kind.
        prior: (n,) how likely each is tried.
    """

    vectors: np.ndarray
    starts: np.ndarray
    kinds: np.ndarray
    prior: np.ndarray


class Editor:
    """Lists the edits of strategies in a space.

    Attributes:
        kinds: how many there are.
    """

    def __init__(self, space: Space, near: int, flat: float, rng: np.random.Generator) -> None:
        """Prepare a space.

        Args:
            space: of the strategies.
            near: how many near degrees a strategy's degrees are exchanged for.
            flat: the share of the prior that is the same for all edits.
            rng: orders degrees that are as near.
        """
        self._space, self._flat = space, flat
        self._neighbourhoods = Neighbourhoods(space, near, rng)
        alone = len(space.names) - 1
        together = len(self._neighbourhoods.all) - alone - 4
        sizes = (1, alone, together, 1, 1, 1, 1)
        self._shares = np.repeat(np.array(SHARES) / np.maximum(sizes, 1), sizes)
        self.kinds = len(self._shares)
        self._near: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def edits(self, starts: np.ndarray, weights: np.ndarray, elites: np.ndarray, history: History) -> Edits:
        """Return all edits that lead to strategies which the history lacks.

        Args:
            starts: (m, d) strategies.
            weights: (m,) how likely each is edited.
            elites: (k, d) strategies whose letters others take.
            history: what was evaluated.
        """
        near = [self._own(start) for start in starts]
        crossed = [self._space.repair(self._neighbourhoods.crossed(start, elites)) for start in starts]
        vectors = np.concatenate([vectors for vectors, _ in near] + crossed)
        kinds = np.concatenate([kinds for _, kinds in near] + [np.full(len(each), self.kinds - 1) for each in crossed])
        counts = [len(vectors) for vectors, _ in near] + [len(each) for each in crossed]
        at = np.repeat(np.tile(np.arange(len(starts)), 2), counts)
        fresh = history.fresh(vectors)
        return self._with_prior(vectors[fresh], at[fresh], kinds[fresh], weights)

    def _own(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what a strategy's own neighbourhoods hold, and of which kind each is."""
        key = start.tobytes()
        if key not in self._near:
            sets = [self._space.repair(neighbourhood(start)) for neighbourhood in self._neighbourhoods.all]
            self._near[key] = np.concatenate(sets), np.repeat(np.arange(len(sets)), [len(each) for each in sets])
        return self._near[key]

    def _with_prior(self, vectors: np.ndarray, starts: np.ndarray, kinds: np.ndarray, weights: np.ndarray) -> Edits:
        """Share a start's weight among the kinds of its edits, and theirs among all of a kind."""
        groups = starts * self.kinds + kinds
        likely = weights[starts] * self._shares[kinds] / np.bincount(groups, minlength=1)[groups]
        prior = (1.0 - self._flat) * likely / likely.sum() + self._flat / max(1, len(likely))
        return Edits(vectors, starts, kinds, prior)
