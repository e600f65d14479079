from __future__ import annotations

import numpy as np
import pytest

from lts_bench.cost.expert_edges import CHUNK, Ways, chunks


@pytest.mark.parametrize("count", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK - 1])
def test_chunks_hold_every_pair_once(count: int) -> None:
    pairs = np.arange(2 * count).reshape(count, 2)
    found = [(place, np.stack((mesh, experts), axis=1)) for place, mesh, experts in chunks(pairs)]
    assert all(len(part) <= CHUNK and (pairs[place] == part).all() for place, part in found)
    assert sum(len(part) for _, part in found) == count


def test_the_cheaper_way_is_taken_pair_by_pair() -> None:
    rng = np.random.default_rng(0)
    parts, whole = rng.random((2, 3, 4, 5))
    routed, everywhere = tuple(rng.random((2, 6, 5))), rng.random((6, 5))
    mesh, experts = np.array([2, 0, 1, 2]), np.array([5, 5, 0, 3])
    time = Ways(parts, whole, routed, everywhere).priced(mesh, experts)
    assert time.shape == (4, 2, 4, 5)
    for pair, (m, e) in enumerate(zip(mesh, experts, strict=True)):
        for kind in (0, 1):
            for choice in range(4):
                split = parts[m, choice] + routed[kind][e]
                assert (time[pair, kind, choice] == np.minimum(split, whole[m, choice] + everywhere[e])).all()
