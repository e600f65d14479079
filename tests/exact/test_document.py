from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lts_bench.assess import evaluate_strategy
from lts_bench.cli import app
from lts_bench.exact.document import find_tasks, optimum_document
from lts_bench.exact.optimum import optimum
from lts_bench.specs.failure import InputError
from lts_bench.task import load_task, make_task

WORKLOAD = "isl=512,osl=128,ttft_ms=300,tpot_ms=8"
PARTS = {"model": "llama-3.1-8b", "cluster": "h100x8", "workload": WORKLOAD}


def test_a_document_tells_what_evaluate_tells() -> None:
    document = optimum_document(make_task(**PARTS))
    assert document["certified"]
    assert document["bound"] >= document["goodput_per_npu"] > 0
    evaluated = evaluate_strategy(**PARTS, strategy=document["strategy"])
    for name in ("goodput_per_npu", "ttft_ms", "tpot_ms", "batch", "concurrency", "throughput_tokens_per_s"):
        assert document[name] == pytest.approx(evaluated[name], rel=1e-12), name
    assert document["over_megatron_search"] >= 1
    assert json.loads(json.dumps(document)) == document


def test_an_infeasible_task_has_a_certificate_too() -> None:
    document = optimum_document(make_task(**(PARTS | {"workload": "isl=512,osl=128,tpot_ms=0.01"})), uncertainty=1)
    assert (document["goodput_per_npu"], document["certified"], document["strategy"]) == (0.0, True, None)
    assert document["tpot_ms"] is None
    assert "uncertainty" not in document


def test_uncertainty_tells_what_the_winner_loses_elsewhere() -> None:
    task = make_task(**PARTS)
    found = optimum_document(task, uncertainty=4)["uncertainty"]
    assert found["draws"] == 4
    assert 0 <= found["regret"]["p5"] <= found["regret"]["p95"] < 1
    assert found["goodput_per_npu"]["p95"] <= found["optimum_goodput_per_npu"]["p95"] * (1 + 1e-9)
    assert sum(found["winning_degrees"].values()) <= 1 + 1e-9
    assert found == optimum_document(task, uncertainty=4)["uncertainty"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "optimum"),
        ({"suite": "smoke", "task": "llama-3.1-8b/h100x8/chat"}, "optimum"),
        ({"task": "llama-3.1-8b/h100x8/chat", "model": "llama-3.1-8b"}, "optimum"),
        ({"model": "llama-3.1-8b", "workload": WORKLOAD}, "--cluster"),
    ],
)
def test_exactly_one_way_to_name_a_task(given: dict[str, Any], named: str) -> None:
    names = ("suite", "task", "model", "cluster", "workload")
    with pytest.raises(InputError) as error:
        find_tasks(**{name: given.get(name) for name in names})
    assert error.value.field == named


def test_the_optimum_of_an_instance_is_its_own() -> None:
    nominal = load_task("llama-3.1-8b/h100x8/chat")
    drawn = nominal.instance(1)
    assert (drawn.digest, drawn.features, drawn.space) == (nominal.digest, nominal.features, nominal.space)
    assert nominal.instance(0) is nominal
    best, here = optimum(drawn), optimum(nominal)
    assert best.certified
    assert best.goodput_per_npu != here.goodput_per_npu
    again = load_task("llama-3.1-8b/h100x8/chat").instance(1)
    assert again.evaluate(best.vector[None])["goodput_per_npu"][0] == best.goodput_per_npu
    assert nominal.instance(1, draw=1).engine != drawn.engine


def test_out_writes_a_strategy_that_evaluates(tmp_path: Path) -> None:
    out = tmp_path / "best.json"
    named = [f"--{name}={value}" for name, value in PARTS.items()]
    run = CliRunner().invoke(app, ["optimum", *named, f"--out={out}", "--json"])
    document = json.loads(run.stdout)["tasks"][0]
    assert json.loads(out.read_text()) == document["strategy"]
