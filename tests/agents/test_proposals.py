"""Random edits are legal and change what their kind says."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToySpace

from lts_bench.agents import _proposals
from lts_bench.agents._axes import Axes
from lts_bench.agents._proposals import Proposals
from lts_bench.space.flow import fits, sources, states
from lts_bench.space.patterns import operator_name

SPACE, AXES = ToySpace(), Axes(ToySpace())
COUNT = 300
TWO_AXES = int(np.flatnonzero((SPACE.degrees[:, 3] == 2) & (SPACE.degrees[:, 4] == 2))[0])


def edited(kind: int, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Strategies on two axes, the elites, and single edits of one kind."""
    monkeypatch.setattr(_proposals, "SHARES", np.eye(len(_proposals.SHARES))[kind])
    monkeypatch.setattr(_proposals, "AGAIN", 0.0)
    rng = np.random.default_rng(seed)
    vectors, elites = SPACE.sample(COUNT, rng), SPACE.sample(3, rng)
    vectors[:, 0], elites[:, 0] = TWO_AXES, TWO_AXES
    vectors, elites = SPACE.canonical(SPACE.repair(vectors)), SPACE.canonical(SPACE.repair(elites))
    return vectors, elites, Proposals(SPACE).draw(vectors, elites, rng)


@pytest.mark.parametrize("kind", range(len(_proposals.SHARES)))
def test_every_kind_makes_legal_edits_that_differ(kind: int, monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(kind, monkeypatch)
    assert SPACE.legal(near).all()
    assert np.array_equal(near, SPACE.canonical(near))
    assert (near != vectors).any(axis=1).mean() > 0.3


def test_only_degrees_change_but_what_they_make_illegal(monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(_proposals.DEGREES, monkeypatch)
    assert (near[:, 0] != vectors[:, 0]).all()
    moved = vectors.copy()
    moved[:, 0] = near[:, 0]
    assert np.array_equal(near, SPACE.canonical(SPACE.repair(moved)))


def test_near_degrees_are_likelier(monkeypatch: pytest.MonkeyPatch):
    *_, near = edited(_proposals.DEGREES, monkeypatch)
    doublings = np.abs(np.log2(SPACE.degrees / SPACE.degrees[TWO_AXES])).sum(axis=1)
    counts = np.bincount(near[:, 0], minlength=len(doublings))
    nearest, farthest = doublings == doublings[doublings > 0].min(), doublings == doublings.max()
    assert counts[nearest].mean() > 2 * counts[farthest].mean()


def test_an_operator_changes_alone(monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(_proposals.OPERATOR, monkeypatch)
    assert (near[:, 0] == vectors[:, 0]).all()
    assert set((near != vectors).sum(axis=1)) == {0, 1}


def changed(vectors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """(n, operators, 2) which letters differ."""
    return AXES.letters(vectors) != AXES.letters(near)


@pytest.mark.parametrize("kind", [_proposals.LETTER_RUN, _proposals.PATTERN_RUN, _proposals.OWN_RUN])
def test_runs_are_of_one_axis_and_short(kind: int, monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(kind, monkeypatch)
    where = changed(vectors, near)
    assert not where.any(axis=1).all(axis=1).any()
    operators = where.any(axis=2)
    first, last = operators.argmax(axis=1), operators.shape[1] - 1 - operators[:, ::-1].argmax(axis=1)
    assert (last - first)[operators.any(axis=1)].max() == _proposals.LONGEST - 1


def test_a_letter_is_the_same_in_all_operators(monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(_proposals.LETTER, monkeypatch)
    letters, where = AXES.letters(near), changed(vectors, near)
    assert {len(set(row[flags])) for row, flags in zip(letters, where, strict=True) if flags.any()} == {1}


def test_patterns_are_those_of_elites(monkeypatch: pytest.MonkeyPatch):
    vectors, elites, near = edited(_proposals.PATTERN, monkeypatch)
    patterns = {tuple(each) for each in np.moveaxis(AXES.letters(elites), 1, 2).reshape(6, -1)}
    letters, where = np.moveaxis(AXES.letters(near), 1, 2), changed(vectors, near).any(axis=1)
    taken = [tuple(letters[row, axis]) for row, axis in np.argwhere(where)]
    # Repair takes back a core that would split more heads than there are.
    assert np.mean([each in patterns for each in taken]) > 0.8


def test_an_axis_takes_what_the_other_has(monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(_proposals.OWN, monkeypatch)
    rows = np.flatnonzero((near != vectors).any(axis=1))
    before, after = AXES.letters(vectors[rows]), AXES.letters(near[rows])
    same = (after == before[..., [0, 0]]).all(axis=(1, 2)) | (after == before[..., [1, 1]]).all(axis=(1, 2))
    assert same.mean() > 0.8


def test_a_run_of_letters_on_one_axis_is_drawn_anew(monkeypatch: pytest.MonkeyPatch):
    vectors, _, near = edited(_proposals.FLOW, monkeypatch)
    assert (near[:, 0] == vectors[:, 0]).all()
    where = changed(vectors, near)
    # Repair may change the core's other axis.
    assert (where.any(axis=1).sum(axis=1) <= 1).mean() > 0.9
    assert where.any(axis=2).sum(axis=1).max() > _proposals.LONGEST


def test_random_strategies_are_legal_and_mostly_fit():
    rng = np.random.default_rng(0)
    drawn = Proposals(SPACE).sample(COUNT, rng)
    assert SPACE.legal(drawn).all()
    assert np.array_equal(drawn, SPACE.canonical(drawn))
    two_axes, unfit = drawn[drawn[:, 0] == TWO_AXES], SPACE.sample(COUNT, rng)
    assert fitting(two_axes) > 0.85 > 0.6 > fitting(unfit[unfit[:, 0] == TWO_AXES])


def fitting(vectors: np.ndarray) -> float:
    """The share of operators on the first axis that take what is left to them."""
    letters, operators = AXES.letters(vectors)[..., 0], [operator_name(name) for name in SPACE.names[1:]]
    pairs = [(source, at) for at, source in enumerate(sources(operators)) if source is not None]
    found = [
        fits(*(states(operators[place], AXES.names[row[place]]) for place in pair)) for row in letters for pair in pairs
    ]
    return float(np.mean(found))


def test_elites_that_split_nothing_leave_a_pattern():
    rng = np.random.default_rng(0)
    alone = SPACE.sample(4, rng)
    alone[:, 0] = int(np.flatnonzero(SPACE.degrees[:, 3:5].prod(axis=1) == 1)[0])
    alone = SPACE.canonical(SPACE.repair(alone))
    assert SPACE.legal(Proposals(SPACE).draw(alone, alone, rng)).all()


def test_the_same_generator_gives_the_same_edits():
    vectors = SPACE.sample(50, np.random.default_rng(3))
    first, second = (Proposals(SPACE).draw(vectors, vectors[:4], np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, second)
