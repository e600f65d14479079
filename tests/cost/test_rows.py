from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_settings import dense_model, moe_model

from lts_bench.cost.rows import RowStore, distinct, positions
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


def test_rows_stand_where_the_store_says() -> None:
    store = RowStore()
    tables = [np.arange(30.0).reshape(2, 3, 5), np.full((1, 5), -1.0), np.arange(10.0).reshape(1, 2, 1, 5)]
    firsts = [store.add(table) for table in tables]
    assert firsts == [0, 6, 7]
    joined = store.join(4)
    assert joined.shape == (2, 9, 4) and joined.ctypes.data % 64 == 0
    assert joined[0, 1 * 3 + 2] == pytest.approx(tables[0][1, 2, :4])
    assert joined[1, 1 * 3 + 2] == pytest.approx([tables[0][1, 2, 4], 0, 0, 0])
    for first, table in zip(firsts, tables, strict=True):
        assert (joined[0, first : first + table.size // 5] == table.reshape(-1, 5)[:, :4]).all()


def test_a_joined_store_is_empty() -> None:
    store = RowStore()
    store.add(np.ones((3, 2)))
    store.join(2)
    assert store.add(np.zeros((1, 2))) == 0
    assert store.join(2).tolist() == [[[0.0, 0.0]]]
    assert store.join(2).shape == (1, 0, 2)


@pytest.mark.parametrize(("key", "expected"), [("ffn.up", (4, 16)), ("embed", (4, 16)), ("experts.up", (4, 4))])
def test_positions_on_one_and_two_axes(key: str, expected: tuple[int, int]) -> None:
    known = [*operators(dense_model()), *operators(moe_model())]
    assert {positions(operator) for operator in known if operator.name == key} == {expected}
