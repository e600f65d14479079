"""The price of the edges between the residual layout on a tensor-parallel mesh and routed experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.edges import MeshPrices, state_index
from lts_bench.cost.experts import LETTERS, ExpertCosts
from lts_bench.space.operators import Operator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
TAKE_ALL = np.array([int(letter != "M") for letter in LETTERS])
"""By the letter of the up projection, 1 where every device of the expert-tensor group needs all tokens."""
WAYS_BACK = ("R", "K", "N")
GIVE_BACK = np.array([WAYS_BACK.index("R" if letter == "M" else letter) for letter in LETTERS])
"""By the letter of the down projection, the way back: split tokens need as little as whole ones."""
CHUNK = 128
"""Pairs that are priced together: few enough for the processor's cache."""


@dataclass(frozen=True)
class Ways:
    """Prices of either way of an exchange.

    Attributes:
        parts: (mesh keys, stream choices, phases) conversions to or from tokens split over the mesh.
        whole: the same to whole tokens, or from partial sums of all of them.
        routed: (expert keys, phases) for each kind of the exchange of split tokens.
        everywhere: (expert keys, phases) the exchange of whole ones.
    """

    parts: FloatArray
    whole: FloatArray
    routed: tuple[FloatArray, ...]
    everywhere: FloatArray

    def priced(self, mesh: IntArray, experts: IntArray) -> FloatArray:
        """(pairs, kinds, stream choices, phases) the cheaper way, of pairs of a mesh key and an expert key."""
        time = np.empty((len(mesh), len(self.routed), *self.parts.shape[1:]))
        whole, parts = self.whole[mesh], self.parts[mesh]
        whole += self.everywhere[experts][:, None]
        for kind, routed in enumerate(self.routed):
            there = np.add(parts, routed[experts][:, None], out=time[:, kind])
            np.minimum(there, whole, out=there)
        return time


def chunks(pairs: IntArray) -> Iterator[tuple[slice, IntArray, IntArray]]:
    """(place, mesh keys, expert keys) of some of (pairs, 2) keys at a time."""
    for begin in range(0, len(pairs), CHUNK):
        place = slice(begin, begin + CHUNK)
        mesh, experts = pairs[place].T
        yield place, mesh, experts


def dispatch_ways(prices: MeshPrices, costs: ExpertCosts, stream: Operator) -> Ways:
    """From the residual layout to the experts; the kinds are those of ``TAKE_ALL``."""
    hidden, axes = prices.setting.model.hidden, prices.mesh.axes
    starts = prices.conversions(hidden)[_states(prices, stream)]
    routed, (gather, _) = costs.routed_in(hidden), costs.everywhere(hidden)
    sliced, whole = state_index(("M",) * axes), state_index(("R",) * axes)
    return Ways(_by_key(starts[:, sliced]), _by_key(starts[:, whole]), (routed[False], routed[True]), gather)


def combine_ways(prices: MeshPrices, costs: ExpertCosts, stream: Operator) -> Ways:
    """From the experts back to the residual layout; the kinds are ``WAYS_BACK``."""
    hidden, axes = prices.setting.model.hidden, prices.mesh.axes
    ends = prices.conversions(hidden)[:, _states(prices, stream)]
    routed, (_, reduce) = costs.routed_out(hidden), costs.everywhere(hidden)
    sliced, partial = state_index(("M",) * axes), state_index(("P",) * axes)
    return Ways(_by_key(ends[sliced]), _by_key(ends[partial]), tuple(routed[letter] for letter in WAYS_BACK), reduce)


def _states(prices: MeshPrices, stream: Operator) -> list[int]:
    return [state_index(choice) for choice in prices.view(stream).choices]


def _by_key(times: FloatArray) -> FloatArray:
    """(choices, keys, phases) as (keys, choices, phases)."""
    return np.ascontiguousarray(times.swapaxes(0, 1))
