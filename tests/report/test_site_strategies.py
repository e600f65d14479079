from __future__ import annotations

from typing import Any

import pytest

from lts_bench.assess import evaluate_strategy
from lts_bench.report.site.strategies import comparison, memory_table, parts, time_table
from lts_bench.space.disaggregated import legal_any
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model

NAMES = {"model": "llama-3.1-8b", "cluster": "h100x8"}
WORKLOAD = "isl=1024,osl=256,ttft_ms=2000,tpot_ms=50"
WHOLE = {"replicas": 2, "tp": 4, "sharding": {"embed": ["R", "R"]}}
POOLS = {"prefill": {"replicas": 1, "tp": 4}, "decode": {"replicas": 1, "tp": 4}}


def strategy(document: Any) -> Any:
    return legal_any(document, load_model(NAMES["model"]), load_cluster(NAMES["cluster"])).strategy


def test_what_differs_from_the_first_strategy_is_marked() -> None:
    other = WHOLE | {"replicas": 1, "tp": 8}
    table = comparison({"mine": strategy(WHOLE), "same": strategy(WHOLE), "other": strategy(other)})
    marks = {row[0].text: [cell.marked for cell in row[1:]] for row in table.rows}
    assert marks["replicas"] == marks["ty"] == [False, False, True]
    assert marks["dp"] == marks["embed"] == [False, False, False]
    texts = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert texts["replicas"] == ["2", "2", "1"]
    assert texts["embed"] == ["– · R"] * 3
    assert "tx · ty" in table.caption


def test_pools_stand_one_after_the_other() -> None:
    pools = strategy(POOLS)
    assert list(parts(pools)) == ["prefill", "decode"]
    names = [row[0].text for row in comparison({"mine": pools}).rows]
    assert names[0] == "prefill replicas"
    assert [name.replace("decode", "prefill") for name in names[len(names) // 2 :]] == names[: len(names) // 2]


@pytest.mark.parametrize("document", [WHOLE, POOLS])
def test_memory_and_time_are_those_of_the_evaluation(document: dict[str, Any]) -> None:
    found = evaluate_strategy(**NAMES, workload=WORKLOAD, strategy=document)  # type: ignore[arg-type]
    memory = memory_table(found["memory_bytes"])
    values = {row[0].text: row[1].value or 0.0 for row in memory.rows}
    assert values["weights"] + values["kv"] + values["buffers"] + values["free"] == pytest.approx(values["limit"])
    lines = [*found["operators"], *found["collectives"]]
    for column, phase in ((3, "prefill_us"), (4, "decode_us")):
        whole = sum(line["count"] * line[phase] for line in lines) / 1e3
        assert sum(row[column].value or 0.0 for row in time_table(found).rows) == pytest.approx(whole)
    decode = [row[4].value or 0.0 for row in time_table(found).rows]
    assert decode == sorted(decode, reverse=True)
