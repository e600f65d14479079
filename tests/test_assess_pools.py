from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lts_bench.assess import check_document, evaluate_strategy
from lts_bench.cli import app
from lts_bench.exact.document import optimum_document
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import parse_workload
from lts_bench.task import make_task

WORKLOAD = "isl=2048,osl=256,ttft_ms=300,tpot_ms=20"
TWO: dict[str, Any] = {"prefill": {"replicas": 1, "pp": 4}, "decode": {"replicas": 2, "tp": 2}}


def evaluated(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"model": "llama-3.1-8b", "cluster": "h100x8", "workload": WORKLOAD, "strategy": TWO}
    return evaluate_strategy(**(given | changes))


def test_what_two_pools_reach() -> None:
    found = evaluated()
    rate, pools = found["requests_per_s"], found["pools"]
    assert found["feasible"] and found["throughput_tokens_per_s"] == pytest.approx(256 * rate)
    assert found["goodput_per_npu"] == pytest.approx(256 * rate / 8)
    assert found["concurrency"] == pytest.approx(found["throughput_tokens_per_s"] * found["tpot_ms"] / 1e3)
    assert rate <= min(pools[name]["requests_per_s"] for name in ("prefill", "decode")) * (1 + 1e-12)
    assert [pools[name]["devices"] for name in ("prefill", "decode")] == [4, 4]
    assert sum(found["ttft_parts_ms"].values()) == pytest.approx(found["ttft_ms"])
    assert set(found["mfu"]) == {"prefill", "decode"}
    assert {row["pool"] for row in found["operators"]} == {"prefill", "decode"}
    assert all(row["decode_us"] == 0 for row in found["operators"] if row["pool"] == "prefill")
    json.dumps(found, allow_nan=False)


def test_the_same_as_in_its_task() -> None:
    task = make_task(model="llama-3.1-8b", cluster="h100x8", workload=WORKLOAD, serving="disaggregated")
    found = evaluated()
    vector = task.space.encode(task.space.decode(task.space.encode(_checked(found["strategy"]))))
    assert task.evaluate(vector[None])["goodput_per_npu"][0] == pytest.approx(found["goodput_per_npu"], rel=1e-12)


def _checked(document: dict[str, Any]) -> Any:
    from lts_bench.space.disaggregated import legal_any

    return legal_any(document, load_model("llama-3.1-8b"), load_cluster("h100x8")).strategy


def test_uncertainty_of_two_pools() -> None:
    spread = evaluated(uncertainty=4)["uncertainty"]
    assert spread["goodput_per_npu"]["p5"] <= spread["goodput_per_npu"]["median"] <= spread["goodput_per_npu"]["p95"]


def test_what_does_not_fit_or_comes_too_late() -> None:
    model, cluster = load_model("llama-3.1-8b"), load_cluster("h100x8")
    late = check_document(model, cluster, TWO, parse_workload("isl=2048,osl=256,ttft_ms=30,tpot_ms=20"))
    assert late["legal"] and [each["rule"] for each in late["violations"]] == ["ttft_ms <= 30"]
    full = check_document(model, cluster, TWO, parse_workload(f"{WORKLOAD},memory_fraction=0.05"))
    assert [each["class"] for each in full["violations"]] == ["MEMORY"]
    with pytest.raises(InputError, match="not legal: TOPOLOGY: the pools need 4 \\+ 5 devices of 8"):
        evaluated(strategy=TWO | {"decode": {"replicas": 5}})


def test_the_optimum_in_one_document() -> None:
    task = make_task(model="llama-3.1-8b", cluster="h100x8", workload=WORKLOAD, serving="disaggregated")
    found = optimum_document(task, uncertainty=2)
    assert found["certified"] and set(found["strategy"]) == {"prefill", "decode"}
    assert found["tpot_ms"] <= 20 and found["uncertainty"]["draws"] == 2
    assert found["goodput_per_npu"] >= evaluated()["goodput_per_npu"] * (1 - 1e-9)


def test_commands_print_both_parts(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(TWO), encoding="utf-8")
    where = ["--model", "llama-3.1-8b", "--cluster", "h100x8", "--strategy", str(path)]
    told = CliRunner().invoke(app, ["evaluate", *where, "--workload", WORKLOAD])
    assert told.exit_code == 0 and "prefill.strategy" in told.output and "decode.strategy" in told.output
    assert CliRunner().invoke(app, ["check", *where]).output.startswith("legal")
