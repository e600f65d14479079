"""Edits are legal, new and of all kinds, and their prior has the shares that it promises."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToySpace

from lts_bench.agents._edits import SHARES, Editor
from lts_bench.agents._history import History

SPACE = ToySpace()


def editor(flat: float = 0.0) -> Editor:
    return Editor(SPACE, near=4, flat=flat, rng=np.random.default_rng(0))


def sampled(count: int) -> np.ndarray:
    return SPACE.sample(count, np.random.default_rng(1))


def test_edits_are_legal_and_come_once():
    edits = editor().edits(starts := sampled(3), np.ones(3), starts, History(SPACE, 1))
    assert SPACE.legal(edits.vectors).all()
    assert len(np.unique(edits.vectors, axis=0)) == len(edits.vectors)


def test_what_the_history_has_is_left_out():
    starts, history = sampled(3), History(SPACE, 1)
    everything = editor().edits(starts, np.ones(3), starts, history)
    history.add(everything.vectors[::2], np.zeros(len(everything.vectors[::2])))
    rest = editor().edits(starts, np.ones(3), starts, history)
    assert np.array_equal(rest.vectors, everything.vectors[1::2])
    history.add(rest.vectors, np.zeros(len(rest.vectors)))
    assert len(editor().edits(starts, np.ones(3), starts, history).prior) == 0


def test_an_operators_kind_changes_that_operator_alone():
    start = sampled(1)
    edits = editor().edits(start, np.ones(1), start, History(SPACE, 1))
    for kind in range(1, len(SPACE.sizes)):
        own = edits.vectors[edits.kinds == kind]
        assert (np.delete(own, kind, axis=1) == np.delete(start, kind, axis=1)).all()


def test_the_prior_follows_weights_and_shares():
    starts = sampled(2)
    edits = editor().edits(starts, np.array([3.0, 1.0]), starts, History(SPACE, 1))
    assert edits.prior.sum() == pytest.approx(1.0)
    of_degrees = [edits.prior[(edits.kinds == 0) & (edits.starts == start)].sum() for start in (0, 1)]
    assert of_degrees[0] == pytest.approx(3.0 * of_degrees[1])
    of_letters = edits.prior[(edits.kinds == len(SPACE.sizes)) & (edits.starts == 0)].sum()
    assert of_degrees[0] / of_letters == pytest.approx(SHARES[0] / SHARES[3])


def test_a_flat_prior_leaves_every_edit_its_share():
    edits = editor(flat=0.5).edits(sampled(2), np.array([1.0, 0.0]), sampled(0), History(SPACE, 1))
    assert edits.prior.min() == pytest.approx(0.5 / len(edits.prior))
    assert edits.prior.sum() == pytest.approx(1.0)
