from __future__ import annotations

import msgspec
import numpy as np
import pytest

from lts_bench.exact.certificates import certificate_of
from lts_bench.results import final_replay as module
from lts_bench.results.final_replay import LOAD, final_replay
from lts_bench.results.rescoring import rescored
from lts_bench.results.schema import Best, Replay
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload
from lts_bench.task import Task, load_task

BOTH = Slo(ttft_ms=500.0, tpot_ms=20.0)


def task_with(slo: Slo) -> Task:
    return Task(TaskSpec("llama-3.1-8b/h100x4/tests", "llama-3.1-8b", "h100x4", Workload(512, 128, slo)))


def optimal(task: Task) -> Best:
    return rescored(task, certificate_of(task, 0).strategy)


@pytest.fixture(scope="module")
def task() -> Task:
    return task_with(BOTH)


def test_the_same_strategy_has_the_same_replay(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    first = final_replay(task, optimal(task))
    monkeypatch.setattr(module, "_known", {})
    assert final_replay(task_with(BOTH), optimal(task)) == first
    assert len(module._known) == 1


def test_the_offered_load_is_a_share_of_the_predicted_rate(task: Task) -> None:
    best = optimal(task)
    found = final_replay(task, best)
    assert found is not None
    assert found.offered_requests_per_s == pytest.approx(LOAD * best.goodput_per_npu * 4 / 128)


def test_a_rate_below_the_highest_one_attains_and_one_above_does_not(task: Task) -> None:
    best = optimal(task)
    found = final_replay(task, best)
    assert found is not None
    assert found.goodput_per_npu is not None
    for share, attains in ((0.98, True), (1.05, False)):
        # What is predicted decides what is offered.
        goodput = share * found.goodput_per_npu / LOAD
        there = final_replay(task, msgspec.structs.replace(best, goodput_per_npu=goodput))
        assert there is not None
        assert (there.attainment >= BOTH.percentile / 100) is attains


def test_instances_are_replayed_apart(task: Task) -> None:
    best = optimal(task)
    slow = task.on(task.cluster, msgspec.structs.replace(task.engine, step_overhead_us=50_000.0))
    assert slow.digest == task.digest
    found = final_replay(slow, best)
    assert isinstance(found, Replay)
    assert (found.attainment, found.goodput_per_npu) == (0.0, 0.0)


def test_without_limits_there_is_nothing_to_attain() -> None:
    task = task_with(Slo())
    assert final_replay(task, optimal(task)) is None


def test_two_pools_are_replayed_as_a_whole() -> None:
    task = load_task("qwen3-32b/h200x16/document-tight-disaggregated")
    found = final_replay(task, optimal(task))
    assert found is not None
    assert 0 < found.attainment < 1
    assert found.goodput_per_npu is not None
    assert 0 < found.goodput_per_npu < optimal(task).goodput_per_npu


def test_figures_are_finite(task: Task) -> None:
    assert np.isfinite(list(msgspec.to_builtins(final_replay(task, optimal(task))).values())).all()
