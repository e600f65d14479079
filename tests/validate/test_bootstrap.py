from __future__ import annotations

import numpy as np
import pytest

from lts_bench.validate.bootstrap import cell_intervals


def test_rows_that_all_err_alike_leave_no_doubt() -> None:
    assert cell_intervals(np.full(9, 5.0), list("aaabbbccc")) == ((5, 5), (5, 5))


def test_cells_are_drawn_whole() -> None:
    # Three cells with errors 1, 2 and 6: by chance (1/27 each) all draws are of one cell.
    found = cell_intervals(np.repeat([1.0, 2.0, 6.0], 4), list("aaaabbbbcccc"))
    assert found is not None
    assert found.median == (1, 6) and found.mean == (1, 6)


def test_many_rows_of_few_cells_promise_no_more() -> None:
    random = np.random.default_rng(1)
    errors = np.abs(random.normal(size=(8, 1)) + 0.1 * random.normal(size=(8, 50)))
    few, many = (cell_intervals(errors[:, :n].ravel(), np.repeat(np.arange(8), n).tolist()) for n in (5, 50))
    assert few is not None and many is not None
    assert np.ptp(many.mean) == pytest.approx(np.ptp(few.mean), rel=0.3)


def test_the_order_of_rows_does_not_matter_and_draws_repeat() -> None:
    errors, cells = np.array([3.0, 1.0, 2.0, 9.0, 4.0, 7.0]), list("abcabc")
    assert cell_intervals(errors, cells) == cell_intervals(errors, cells)
    # Cells in order of appearance, their rows in any.
    swapped = errors[[3, 1, 2, 0, 4, 5]]
    assert cell_intervals(swapped, cells) == cell_intervals(errors, cells)


def test_few_cells_have_no_interval() -> None:
    assert cell_intervals(np.ones(4), list("aabb")) is None
