from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.calibrate.fit import fit, held_out
from lts_bench.calibrate.priors import Prior

X = np.linspace(1, 100, 40)
KNOWN = {"floor": Prior(4.0, 0.5), "slope": Prior(0.5, 0.5)}


def line(constants: Mapping[str, float]) -> np.ndarray:
    return constants["floor"] + constants["slope"] * X


@given(st.floats(2, 8), st.floats(0.25, 1))
def test_constants_are_recovered(floor: float, slope: float) -> None:
    found = fit(line, line({"floor": floor, "slope": slope}), KNOWN)
    assert found["floor"] == pytest.approx(floor, rel=0.02)
    assert found["slope"] == pytest.approx(slope, rel=0.01)


def test_outliers_weigh_little() -> None:
    truth = line({"floor": 5, "slope": 0.7})
    truth[::10] *= 5
    found = fit(line, truth, KNOWN)
    assert found["slope"] == pytest.approx(0.7, rel=0.05)


def test_a_constant_that_nothing_tells_stays_where_it_was() -> None:
    found = fit(line, line({"floor": 5, "slope": 0.7}), {**KNOWN, "idle": Prior(3.0, 0.2)})
    assert found["idle"] == 3.0


def test_limits_hold() -> None:
    found = fit(line, line({"floor": 5, "slope": 2}), {**KNOWN, "slope": Prior(0.5, 0.5, 1.0)})
    assert found["slope"] <= 1


def test_a_fit_repeats_exactly() -> None:
    truth = line({"floor": 5, "slope": 0.7}) * np.random.default_rng(0).lognormal(0, 0.05, len(X))
    assert fit(line, truth, KNOWN) == fit(line, truth, KNOWN)


def test_shapes_are_held_out_whole() -> None:
    truth = line({"floor": 5, "slope": 0.7})
    shapes = [0] * 35 + [1] * 5
    truth[35:] *= 2
    predicted = held_out(line, truth, KNOWN, shapes)
    assert predicted is not None
    assert predicted[35:] == pytest.approx(truth[35:] / 2, rel=0.02)
    assert held_out(line, truth, KNOWN, [0] * 40) is None
