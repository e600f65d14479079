"""Letters axis by axis, and back."""

from __future__ import annotations

import numpy as np
from fakes import ToySpace

from lts_bench.agents._axes import Axes


def vector_of(space: ToySpace, label: str) -> np.ndarray:
    return space.encode({"degrees": space.choices[0][0], **dict.fromkeys(space.names[1:], label)})[np.newaxis]


def test_letters_are_those_of_the_labels_and_give_the_vectors_back():
    space = ToySpace()
    axes, vectors = Axes(space), space.sample(50, np.random.default_rng(0))
    letters = axes.letters(vectors)
    assert np.array_equal(axes.written(vectors, letters), vectors)
    for vector, own in zip(vectors, letters, strict=True):
        labels = [row[choice] for row, choice in zip(space.choices[1:], vector[1:], strict=True)]
        assert [",".join(axes.names[letter] for letter in pair) for pair in own] == labels


def test_a_letter_is_set_on_one_axis_wherever_operators_have_it():
    space = ToySpace()
    axes = Axes(space)
    vectors = axes.relabelled(vector_of(space, "R,R"), np.array([1]), np.array([axes.names.index("K")]))
    changed = space.decode(vectors[0])
    assert {name for name, label in changed.items() if label == "R,K"} == {
        f"dense.{name}" for name in ("attention.qkv", "attention.out", "ffn.up", "ffn.down")
    }
    assert changed["head"] == "R,R"
