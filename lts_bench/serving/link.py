"""Transfers of KV caches from prefill ranks to decode ranks, which share the links of both ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@compiled
def transfer_ends(
    start: FloatArray, sender: IntArray, receiver: IntArray, sending: FloatArray, receiving: FloatArray
) -> FloatArray:
    """(n,) when transfers end.

    Transfers on their way share the rate of their sender evenly, and that of their receiver; the slower end counts.

    Args:
        start: (n,) seconds, ascending.
        sender: (n,) ranks.
        receiver: (n,) ranks.
        sending: (n,) seconds that a transfer would take by itself with the fastest receiver.
        receiving: (n,) likewise, with the fastest sender.
    """
    n = len(start)
    end, left, active = np.empty(n), np.ones(n), np.empty(n, np.int64)
    sends, receives = np.zeros(sender.max() + 1), np.zeros(receiver.max() + 1)
    now, begun, many = 0.0, 0, 0
    while begun < n or many > 0:
        until = start[begun] if begun < n else np.inf
        for at in range(many):
            one = active[at]
            until = min(until, now + left[one] * _seconds(one, sender, receiver, sending, receiving, sends, receives))
        still = 0
        for at in range(many):
            one = active[at]
            needed = _seconds(one, sender, receiver, sending, receiving, sends, receives)
            if now + left[one] * needed <= until:
                end[one] = until
            else:
                left[one] -= (until - now) / needed
                active[still] = one
                still += 1
        now, many = until, still
        while begun < n and start[begun] <= now:
            active[many] = begun
            many += 1
            begun += 1
        sends[:], receives[:] = 0.0, 0.0
        for at in range(many):
            sends[sender[active[at]]] += 1
            receives[receiver[active[at]]] += 1
    return end


@compiled
def _seconds(
    one: int, sender: IntArray, receiver: IntArray, sending: FloatArray, receiving: FloatArray, sends: FloatArray,
    receives: FloatArray,
) -> float:  # fmt: skip
    """Seconds of a whole transfer as long as nothing changes."""
    seconds: float = max(sending[one] * sends[sender[one]], receiving[one] * receives[receiver[one]])
    return seconds
