"""Letters along the flow of activations."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToySpace

from lts_bench.agents import _flow
from lts_bench.agents._axes import Axes
from lts_bench.agents._flow import Flow
from lts_bench.space.flow import fits, sources, states
from lts_bench.space.patterns import operator_name

SPACE, AXES = ToySpace(), Axes(ToySpace())
OPERATORS = [operator_name(name) for name in SPACE.names[1:]]
COUNT = 400


def redrawn(where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Letters on an axis, and the same drawn anew at some places."""
    letters = AXES.letters(SPACE.sample(COUNT, np.random.default_rng(0)))[..., 0]
    return letters, Flow(SPACE, AXES).redrawn(letters, where, np.random.default_rng(1))


def test_only_what_is_asked_for_is_drawn_anew() -> None:
    where = np.random.default_rng(2).random((COUNT, len(OPERATORS))) < 0.5
    letters, drawn = redrawn(where)
    assert np.array_equal(drawn[~where], letters[~where])
    assert (drawn[where] != letters[where]).mean() > 0.4


def test_every_letter_that_fits_is_drawn_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flow, "LOOSE", 0.0)
    _, drawn = redrawn(np.ones((COUNT, len(OPERATORS)), dtype=np.bool_))
    for at, source in enumerate(sources(OPERATORS)):
        held = {letter for label in SPACE.choices[1 + at] for letter in label.split(",")}
        if source is None:
            assert {AXES.names[letter] for letter in drawn[:, at]} == held
            continue
        for before in np.unique(drawn[:, source]):
            left = states(OPERATORS[source], AXES.names[before])
            found = {AXES.names[letter] for letter in drawn[drawn[:, source] == before, at]}
            assert found == {letter for letter in held if fits(left, states(OPERATORS[at], letter))}


def test_now_and_then_a_letter_does_not_fit() -> None:
    _, drawn = redrawn(np.ones((COUNT, len(OPERATORS)), dtype=np.bool_))
    pairs = [(at, source) for at, source in enumerate(sources(OPERATORS)) if source is not None]
    fitting = [
        fits(states(OPERATORS[source], AXES.names[row[source]]), states(OPERATORS[at], AXES.names[row[at]]))
        for row in drawn
        for at, source in pairs
    ]
    assert 0.8 < np.mean(fitting) < 0.999
