from __future__ import annotations

import numpy as np

from lts_bench.space.degrees_table import DegreesTable
from lts_bench.space.strategy import Degrees

LISTED = [Degrees(1, 2, 4, 1, 8, 32, 1), Degrees(3, 1, 1, 2, 2, 4, 1)]


def test_a_table_is_the_sequence_of_its_rows() -> None:
    table = DegreesTable(np.array([[1, 2, 4, 1, 8, 32, 1], [3, 1, 1, 2, 2, 4, 1]]))
    assert list(table) == list(DegreesTable.of(LISTED)) == LISTED
    assert list(table[1:]) == LISTED[1:] and table.index(LISTED[1]) == 1
    assert {name: column.tolist() for name, column in table.columns.items()} == {
        "replicas": [1, 3], "pp": [2, 1], "dp": [4, 1], "tx": [1, 2], "ty": [8, 2], "ep": [32, 4], "etp": [1, 1],
    }  # fmt: skip
    assert all(type(value) is int for value in (table[0].pp, table[0].etp))


def test_a_table_is_taken_as_it_is_and_may_be_empty() -> None:
    table = DegreesTable.of(LISTED)
    assert DegreesTable.of(table) is table
    assert list(DegreesTable.of([])) == []
