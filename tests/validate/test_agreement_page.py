from __future__ import annotations

import pytest

from lts_bench.specs.suite import load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload
from lts_bench.validate.agreement import LOADS, Comparison, compare
from lts_bench.validate.agreement_page import document, page, summary

LONE = "replicas=1 pp=1 dp=1 tp=8 ep=1 etp=8"
PIPELINE = "replicas=2 pp=2 dp=1 tp=4 ep=1 etp=4"
LOCKSTEP = "replicas=1 pp=1 dp=8 tp=1 ep=8 etp=1"
POOLS = f"prefill {LONE} / decode {LONE}"


def row(task: str, degrees: str, load: float, ttft: float, tpot: float, attainment: float = 1.0) -> Comparison:
    """A comparison whose closed form says 100 ms and 10 ms."""
    return Comparison(task, degrees, load, 1.01, ttft, 100.0, 100.0, tpot, 10.0, 10.0, attainment, 0.9)


ROWS = [
    row("a/b/one", LONE, 0.5, 100.0, 10.0),
    row("a/b/one", LONE, 0.9, 80.0, 10.0, 0.86),
    row("a/b/pipeline", PIPELINE, 0.5, 100.0, 8.0),
    row("a/b/lockstep", LOCKSTEP, 0.5, 90.0, 10.4),
    row("a/b/pools", POOLS, 0.5, 100.0, 10.0, 0.88),
]


def test_errors_are_closed_form_over_replay() -> None:
    assert (ROWS[1].ttft_error, ROWS[2].tpot_error) == pytest.approx((0.25, 0.25))
    assert (ROWS[1].lone_ttft_error, ROWS[2].lone_tpot_error) == (0.0, 0.0)


def test_shares_within_the_targets_by_kind() -> None:
    told = {each["kind"]: each for each in summary(ROWS)}
    assert list(told) == ["one stage, one rank", "pipelines", "ranks in lockstep", "two pools", "all"]
    assert told["one stage, one rank"] == {
        "kind": "one stage, one rank", "comparisons": 2, "throughput": 1.0, "tpot": 1.0, "lone_tpot": 1.0, "ttft": 0.5,
        "lone_ttft": 1.0, "attainment": 0.5,
    }  # fmt: skip
    assert told["pipelines"]["tpot"] == 0.0 and told["two pools"]["attainment"] == 1.0
    assert told["all"]["comparisons"] == 5
    assert [each["kind"] for each in summary(ROWS[:1])] == ["one stage, one rank", "all"]


def test_the_page_has_a_line_a_task() -> None:
    text = page(ROWS)
    assert "| two pools | 1 | 100 % |" in text and "(summary)" not in text
    line = f"| a/b/one | {LONE} | +1.0 +1.0 | +0.0 +0.0 | +0.0 +0.0 | +0.0 +25.0 | +0.0 +0.0 | 100.0 86.0 |"
    assert line in text.splitlines()
    assert len(document(ROWS)["comparisons"]) == len(ROWS)


def test_an_optimum_at_all_loads() -> None:
    spec = TaskSpec(
        "llama-3.1-8b/h100x2/short", "llama-3.1-8b", "h100x2", Workload(512, 64, Slo(ttft_ms=200.0, tpot_ms=20.0))
    )
    rows = compare(spec)
    assert [each.load for each in rows] == list(LOADS)
    for each in rows:
        assert each.throughput == pytest.approx(1.0, abs=0.05)
        assert abs(each.lone_tpot_error) < 0.08 and abs(each.lone_ttft_error) < 0.15
        assert each.attainment >= each.wanted - 0.03


def test_two_pools_agree() -> None:
    spec = next(task for task in load_suite("disagg").tasks if task.name.startswith("llama-3.1-8b/"))
    for each in compare(spec):
        assert abs(each.tpot_error) < 0.05 and abs(each.ttft_error) < 0.15
        assert each.attainment >= each.wanted - 0.03
