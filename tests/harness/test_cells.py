from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_task import CARD, small_cell

from lts_bench.budget import Budget
from lts_bench.harness.cells import AgentCard, make_cells, parse_shard, shard
from lts_bench.specs.failure import InputError

BUDGET = Budget("e50", 50, 60.0)


def card(name: str, version: str = "1") -> AgentCard:
    return AgentCard(name, name, version, "search", {}, "0" * 64)


def test_cells_come_in_one_order() -> None:
    agents = [card("b"), card("a", "2"), card("a")]
    cells = make_cells(agents, [CARD], (2, 1), BUDGET, "child")
    assert cells == make_cells(agents[::-1], [CARD], (1, 2), BUDGET, "child")
    order = [(cell.agent.name, cell.agent.version, cell.seed) for cell in cells]
    assert order == [("a", "1", 1), ("a", "1", 2), ("a", "2", 1), ("a", "2", 2), ("b", "1", 1), ("b", "1", 2)]


def test_seed_i_runs_instance_i() -> None:
    cells = make_cells([card("a")], [CARD], (1, 2, 3), BUDGET, "child")
    assert [cell.instance for cell in cells] == [cell.seed for cell in cells] == [1, 2, 3]


def test_the_id_holds_all_that_the_outcome_depends_on() -> None:
    cell = small_cell("x.py:X")
    agent, replace = cell.agent, msgspec.structs.replace
    variants = [
        cell,
        *(replace(cell, task=replace(CARD, **{field: "other"})) for field in ("digest", "space_digest", "cost_model")),
        replace(cell, instance=2),
        replace(cell, seed=2),
        replace(cell, budget=Budget("e100", 100, 60.0)),
        *(replace(cell, agent=replace(agent, **{field: "other"})) for field in ("name", "version", "track")),
        replace(cell, agent=replace(agent, parameters={"rate": 0.1})),
    ]
    assert len({variant.run_id for variant in variants}) == len(variants)


def test_neither_isolation_nor_place_changes_the_id() -> None:
    cell = small_cell("x.py:X")
    moved = msgspec.structs.replace(cell, agent=msgspec.structs.replace(cell.agent, ref="/elsewhere/x.py:X"))
    assert cell.run_id == moved.run_id == small_cell("x.py:X", isolation="in_process").run_id


def test_an_isolation_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no such isolation"):
        make_cells([], [], [], BUDGET, "chld")


def test_two_agents_of_one_name_are_refused() -> None:
    twin = msgspec.structs.replace(card("a"), ref="twin.py:A")
    with pytest.raises(InputError, match=r"a, twin\.py:A"):
        make_cells([card("a"), twin], [CARD], (1,), BUDGET, "child")


@given(st.lists(st.integers()), st.integers(1, 9))
def test_shards_give_every_item_once(items: list[int], count: int) -> None:
    parts = [shard(items, index, count) for index in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == sorted(items)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "-1/2", "1/0"])
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="shard"):
        parse_shard(text)


def test_a_shard_is_read() -> None:
    assert parse_shard("2/3") == (2, 3)
