from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_settings import dense_model, moe_model

from lts_bench.cost.rows import DistinctRows, RowStore, distinct, distinct_rows, positions
from lts_bench.space.operators import operators


@given(st.lists(st.integers(0, 5) | st.tuples(st.booleans(), st.booleans())))
def test_distinct_keys_stand_for_all(keys: list[object]) -> None:
    found, rows = distinct(keys)
    assert [found[row] for row in rows] == keys
    assert len(set(found)) == len(found)
    assert sorted(found, key=keys.index) == found


def test_distinct_by_hand() -> None:
    found, rows = distinct("banana")
    assert found == ["b", "a", "n"] and rows.tolist() == [0, 1, 2, 1, 2, 1]
    nothing, none = distinct(())
    assert nothing == [] and none.shape == (0,) and none.dtype == np.int64


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2)), max_size=40))
def test_distinct_rows_are_distinct_keys(rows: list[tuple[int, int]]) -> None:
    first, which = distinct_rows(np.array(rows, dtype=np.int64).reshape(-1, 2))
    found, positions_of = distinct(rows)
    assert [rows[row] for row in first] == found and which.tolist() == positions_of.tolist()


def test_rows_stand_where_the_store_says() -> None:
    store = DistinctRows()
    tables = [np.arange(30.0).reshape(2, 3, 5), np.full((1, 5), -1.0), np.arange(10.0).reshape(1, 2, 1, 5)]
    firsts = [store.add(table) for table in tables]
    assert firsts == [0, 6, 7]
    strips, which = store.strips(4)
    assert strips.shape == (2, 7, 4) and which.shape == (9,)  # the last table repeats rows of the first
    assert strips[0, which[1 * 3 + 2]] == pytest.approx(tables[0][1, 2, :4])
    assert strips[1, which[1 * 3 + 2]] == pytest.approx([tables[0][1, 2, 4], 0, 0, 0])
    for first, table in zip(firsts, tables, strict=True):
        rows = which[first : first + table.size // 5]
        assert (strips[0, rows] == table.reshape(-1, 5)[:, :4]).all()


def test_a_joined_store_is_empty() -> None:
    store = RowStore()
    store.add(np.ones((3, 2)))
    assert store.join().tolist() == [[1.0, 1.0]] * 3
    assert store.add(np.zeros((1, 2))) == 0
    assert store.join().tolist() == [[0.0, 0.0]]
    assert store.join().shape == (0, 1)


def test_no_rows_have_no_strips() -> None:
    strips, which = DistinctRows().strips(2)
    assert strips.shape == (1, 0, 2) and which.shape == (0,)


def test_choices_share_rows() -> None:
    store = DistinctRows()
    assert store.add(np.arange(8.0).reshape(2, 2, 2), np.array([[0, 1], [1, 1]])) == 0
    assert store.add(np.zeros((1, 2))) == 8
    strips, which = store.strips(2)
    assert strips[0, which].tolist() == [[0, 1], *[[2, 3]] * 3, [4, 5], *[[6, 7]] * 3, [0, 0]]


@pytest.mark.parametrize(("key", "expected"), [("ffn.up", (4, 16)), ("embed", (4, 16)), ("experts.up", (4, 4))])
def test_positions_on_one_and_two_axes(key: str, expected: tuple[int, int]) -> None:
    known = [*operators(dense_model()), *operators(moe_model())]
    assert {positions(operator) for operator in known if operator.name == key} == {expected}


def test_equal_rows_are_kept_once() -> None:
    store = DistinctRows()
    rows = np.arange(30.0).reshape(3, 10)
    assert store.add(np.stack([rows, rows[::-1]])) == 0
    assert store.add(rows[:1]) == 6
    strips, which = store.strips(8)
    assert strips.shape == (2, 3, 8)
    unrolled = np.moveaxis(strips, 0, 1).reshape(3, 16)[which]
    assert (unrolled[:, :10] == np.concatenate([rows, rows[::-1], rows[:1]])).all()
    assert not unrolled[:, 10:].any() and strips.ctypes.data % 64 == 0
