from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import degrees

from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.conversion import (
    Activation,
    canonical_layout,
    conversion_moves,
    conversion_seconds,
    local_bytes,
    state_letters,
)
from lts_bench.cost.layout import Layout, moves
from lts_bench.cost.mesh import Mesh, mesh_key
from lts_bench.cost.network import Network
from lts_bench.specs.cluster import load_cluster

CLUSTER = load_cluster("h100x16")
NETWORK = Network(CLUSTER, None)
ONE = Mesh(NETWORK, [mesh_key(CLUSTER, degrees(tp=8))], 1)
TWO = Mesh(NETWORK, [mesh_key(CLUSTER, degrees(tp=16, tx=2))], 2)


def tensor(tokens: float, features: int = 512) -> Activation:
    return Activation(np.array([tokens]), features, 2.0)


def price(mesh: Mesh, given: Activation, source: tuple[str, ...], target: tuple[str, ...]) -> float:
    letters = state_letters(mesh.axes)
    return float(conversion_seconds(mesh, given)[letters.index(source), letters.index(target), 0, 0])


def of(mesh: Mesh, kind: Collective, n: float) -> float:
    return float(seconds(mesh.regimes((0,)), kind, np.array([[n]]))[0, 0])


def shortest(mesh: Mesh, given: Activation, source: Layout) -> dict[Layout, float]:
    """Dijkstra over the moves, priced one by one."""
    distance: dict[Layout, float] = {}
    queue: list[tuple[float, int, Layout]] = [(0.0, 0, source)]
    count = 0
    while queue:
        so_far, _, here = heapq.heappop(queue)
        if here in distance:
            continue
        distance[here] = so_far
        for move in moves(here, tuple(range(mesh.axes))):
            step = 0.0
            if move.kind is not None:
                n = local_bytes(mesh, move.sized_by, given)
                step = float(seconds(mesh.regimes(move.axes), move.kind, n)[0, 0])
            count += 1
            heapq.heappush(queue, (so_far + step, count, move.target))
    return distance


@pytest.mark.parametrize("mesh", [ONE, TWO])
@pytest.mark.parametrize("tokens", [1.0, 7.0, 300.0, 40_000.0])
def test_against_brute_force(mesh: Mesh, tokens: float) -> None:
    given = tensor(tokens)
    letters = state_letters(mesh.axes)
    found = conversion_seconds(mesh, given)[:, :, 0, 0]
    for row, source in enumerate(letters):
        best = shortest(mesh, given, canonical_layout(source))
        for column, target in enumerate(letters):
            expected = np.inf if "P" in target else best[canonical_layout(target)]
            assert found[row, column] == pytest.approx(expected, rel=1e-12), (source, target)


def test_hand_worked_conversions_of_one_axis() -> None:
    big = tensor(64_000)
    n = 64_000 * 512 * 2
    assert price(ONE, big, ("R",), ("M",)) == price(ONE, big, ("R",), ("N",)) == 0
    assert price(ONE, big, ("M",), ("R",)) == pytest.approx(of(ONE, Collective.ALL_GATHER, n))
    assert price(ONE, big, ("M",), ("N",)) == pytest.approx(of(ONE, Collective.ALL_TO_ALL, n / 8))
    assert price(ONE, big, ("P",), ("M",)) == pytest.approx(of(ONE, Collective.REDUCE_SCATTER, n))
    assert price(ONE, big, ("P",), ("R",)) == pytest.approx(of(ONE, Collective.ALL_REDUCE, n))


def test_partial_sums_cannot_be_made_of_whole_tensors() -> None:
    assert np.isinf(price(ONE, tensor(8), ("R",), ("P",)))


def test_one_token_stays_on_one_device() -> None:
    # Tokens are rounded up: a token split over 8 devices is a whole row on the fullest.
    assert local_bytes(ONE, canonical_layout(("M",)), tensor(1.0))[0, 0] == 1024


def test_the_order_of_axes_counts() -> None:
    # (x, y) both on tokens: y is minor and moves alone; to leave x the tokens would have to be reordered.
    big = tensor(64_000)
    minor, major = price(TWO, big, ("M", "M"), ("M", "N")), price(TWO, big, ("M", "M"), ("N", "M"))
    assert minor < major


@given(
    st.sampled_from(state_letters(2)), st.sampled_from(state_letters(2)), st.sampled_from(state_letters(2)),
    st.sampled_from([1.0, 100.0, 10_000.0]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_triangle_inequality(a: tuple[str, ...], b: tuple[str, ...], c: tuple[str, ...], tokens: float) -> None:
    given = tensor(tokens)
    assert price(TWO, given, a, c) <= price(TWO, given, a, b) + price(TWO, given, b, c) + 1e-15


@given(st.sampled_from(state_letters(2)), st.sampled_from([s for s in state_letters(2) if "P" not in s]))
@settings(max_examples=40, deadline=None)
def test_moves_of_a_path_add_up_to_its_price(source: tuple[str, ...], target: tuple[str, ...]) -> None:
    given, letters = tensor(777.0), state_letters(2)
    path = conversion_moves(TWO, given, letters.index(source), letters.index(target), 0)
    assert sum(time for _, time in path) == pytest.approx(price(TWO, given, source, target))
    assert all(a.target == b.source for (a, _), (b, _) in pairwise(path))
