from __future__ import annotations

from lts_bench.cost.collectives import Collective
from lts_bench.cost.layout import Layout, moves, reachable

X, Y = 0, 1


def kinds(layout: Layout) -> set[tuple[Collective | None, tuple[int, ...], Layout]]:
    return {(move.kind, move.axes, move.target) for move in moves(layout, (X, Y))}


def test_only_the_minor_most_axes_are_gathered() -> None:
    both = Layout(((X, Y), ()))
    gathers = {(axes, target) for kind, axes, target in kinds(both) if kind is Collective.ALL_GATHER}
    assert gathers == {((Y,), Layout(((X,), ()))), ((X, Y), Layout(((), ())))}


def test_a_slice_is_appended_minor_most_and_free() -> None:
    half = Layout(((X,), ()))
    slices = {target for kind, _, target in kinds(half) if kind is None}
    assert slices == {Layout(((X, Y), ())), Layout(((X,), (Y,)))}


def test_partial_sums_are_never_sliced_or_gathered() -> None:
    partial = Layout(((), ()), frozenset({X}))
    assert {kind for kind, axes, _ in kinds(partial) if X in axes} == {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER}


def test_one_fused_all_reduce_over_all_pending_axes() -> None:
    partial = Layout(((), ()), frozenset({X, Y}))
    assert (Collective.ALL_REDUCE, (X, Y), Layout(((), ()))) in kinds(partial)
    assert (Collective.REDUCE_SCATTER, (X, Y), Layout(((X, Y), ()))) in kinds(partial)


def test_an_all_to_all_moves_a_suffix_to_the_end() -> None:
    assert (Collective.ALL_TO_ALL, (Y,), Layout(((X,), (Y,)))) in kinds(Layout(((X, Y), ())))
    assert (Collective.ALL_TO_ALL, (X,), Layout(((), (Y, X)))) in kinds(Layout(((X,), (Y,))))


def test_another_order_is_a_permutation() -> None:
    assert (Collective.SEND, (X, Y), Layout(((Y, X), ()))) in kinds(Layout(((X, Y), ())))


def test_collectives_are_sized_by_their_formula() -> None:
    for move in moves(Layout(((X,), ())), (X, Y)):
        assert move.sized_by == (move.target if move.kind is Collective.ALL_GATHER else move.source)


def test_every_layout_is_reached_and_none_splits_twice() -> None:
    found = reachable(Layout(((), ()), frozenset({X, Y})), (X, Y))
    # Two dimensions and two axes: 2 whole-dimension orders each and 2 crossed (6), one axis split 4, none 1;
    # one axis pending: other split 2 or whole 1, twice (6); both pending 1.
    assert len(found) == 6 + 4 + 1 + 6 + 1
    assert all(len(layout.sharded) == sum(map(len, layout.dims)) for layout in found)
