"""Vectors in compiled functions against NumPy's arrays: the same bits lane by lane."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lts_bench.cost.compiled import select
from lts_bench.cost.rows import LINE, MEMORY
from lts_bench.cost.steady import larger
from lts_bench.cost.vectors import bits, bytes_at, bytes_of, highest, lane, lanes, line_at, line_of, put_bytes, put_line

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)
LINES = arrays(np.float64, (2, LINE), elements=NUMBERS)


@numba.njit(error_model="numpy")
def compute(rows: np.ndarray, number: float, found: np.ndarray) -> None:
    a, b = line_at(rows, np.uint64(0)), line_at(rows, np.uint64(1))
    put_line(found, np.uint64(0), a + b * number - a / 3)
    put_line(found, np.uint64(1), 2 * a / (b - number))
    put_line(found, np.uint64(2), larger(a, b))
    put_line(found, np.uint64(3), select((a >= b) & (b <= number), a, 7.0))
    put_line(found, np.uint64(4), lanes() + line_of(number))


@given(LINES, NUMBERS)
def test_a_lane_gets_the_bits_that_it_would_get_by_itself(rows: np.ndarray, number: float) -> None:
    found = np.empty((5, LINE))
    compute(rows, number, found)
    a, b = rows
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [
            a + b * number - a / 3,
            2 * a / (b - number),
            np.where(a > b, a, b),
            np.where((a >= b) & (b <= number), a, 7.0),
            np.arange(LINE) + number,
        ]
    np.testing.assert_array_equal(found, expected)


@numba.njit
def highest_above(rows: np.ndarray, limit: float) -> tuple[int, int]:
    above = bits(line_at(rows, np.uint64(0)) > limit)
    return above, highest(above) if above else np.uint64(LINE)


@given(LINES, NUMBERS)
def test_bits_of_a_mask(rows: np.ndarray, limit: float) -> None:
    above = np.flatnonzero(rows[0] > limit)
    expected = int(np.sum(1 << above)), int(above.max(initial=-1)) if len(above) else LINE
    assert highest_above(rows, limit) == expected


@numba.njit
def add_to_bytes(rows: np.ndarray, number: float) -> float:
    put_bytes(rows, np.uint64(1), bytes_at(rows, np.uint64(0)) + bytes_of(number))
    return float(lane(bytes_at(rows, np.uint64(1)), np.uint64(MEMORY - 1)))


def test_a_row_of_bytes_is_shorter() -> None:
    rows = np.arange(3.0 * MEMORY).reshape(3, MEMORY)
    assert add_to_bytes(rows, 10.0) == 13
    np.testing.assert_array_equal(rows, [[0, 1, 2, 3], [10, 11, 12, 13], [8, 9, 10, 11]])
