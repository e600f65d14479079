from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lts_bench.serving.link import transfer_ends


def ends(start: list[float], sender: list[int], receiver: list[int], sending: float, receiving: float) -> np.ndarray:
    n = len(start)
    ranks = np.array(sender), np.array(receiver)
    return transfer_ends(np.array(start, float), *ranks, np.full(n, sending), np.full(n, receiving))


def test_alone_the_slower_end_counts() -> None:
    assert ends([1.0], [0], [0], 0.2, 0.5) == pytest.approx([1.5])
    assert ends([1.0, 5.0], [0, 0], [0, 0], 0.5, 0.2) == pytest.approx([1.5, 5.5])


def test_two_from_one_sender_share_its_rate() -> None:
    # The first is alone for 0.5 s, then both have half: 1 s more, and 0.5 s of the second are left.
    assert ends([0.0, 0.5], [0, 0], [0, 1], 1.0, 0.1) == pytest.approx([1.5, 2.0])


def test_two_to_one_receiver_share_its_rate() -> None:
    assert ends([0.0, 0.0], [0, 1], [0, 0], 0.1, 1.0) == pytest.approx([2.0, 2.0])


def test_other_ranks_are_not_in_the_way() -> None:
    assert ends([0.0, 0.0], [0, 1], [0, 1], 1.0, 1.0) == pytest.approx([1.0, 1.0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_no_link_sends_more_than_it_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    start, sender, receiver = np.sort(rng.uniform(0, 5, n)), rng.integers(0, 3, n), rng.integers(0, 4, n)
    sending, receiving = rng.uniform(0.01, 0.3, n), rng.uniform(0.01, 0.3, n)
    end = transfer_ends(start, sender, receiver, sending, receiving)
    assert (end >= start + np.maximum(sending, receiving) - 1e-9).all()
    for rank, seconds in ((sender, sending), (receiver, receiving)):
        for one in np.unique(rank):
            mine = rank == one
            # From any start on, what begins later cannot all have ended before its seconds are over.
            for begin in start[mine]:
                late = mine & (start >= begin)
                assert end[late].max() >= begin + seconds[late].sum() - 1e-9 or start[late].max() > begin


def test_processor_sharing_has_its_mean() -> None:
    # M/D/1 with processor sharing: x / (1 − ρ).
    rng = np.random.default_rng(0)
    n, load = 60_000, 0.6
    start = np.cumsum(rng.exponential(1 / load, n))
    end = transfer_ends(start, np.zeros(n, np.int64), rng.integers(0, 10**4, n), np.ones(n), np.full(n, 1e-3))
    assert (end - start).mean() == pytest.approx(1 / (1 - load), rel=0.03)
