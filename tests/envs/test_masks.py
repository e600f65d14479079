"""Random choices that masks admit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lts_bench.envs import sample_choices


@given(arrays(np.int8, array_shapes(min_dims=2, max_dims=2), elements=st.integers(0, 1)), st.integers(0, 2**32 - 1))
def test_choices_are_admitted(masks, seed):
    masks[:, 0] |= ~masks.any(axis=1)
    choices = sample_choices(masks, np.random.default_rng(seed))
    assert masks[np.arange(len(masks)), choices].all()
    assert (choices == sample_choices(masks, np.random.default_rng(seed))).all()


def test_admitted_choices_are_equally_likely():
    masks = np.zeros((40_000, 9), dtype=np.int8)
    masks[:, [1, 4, 8]] = 1
    counts = np.bincount(sample_choices(masks, np.random.default_rng(0)), minlength=9)
    assert set(np.flatnonzero(counts)) == {1, 4, 8}
    assert np.abs(counts[[1, 4, 8]] / 40_000 - 1 / 3).max() < 0.01
