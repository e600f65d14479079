"""The built-in suites: every task can be solved and measured, and large-npu covers what it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from lts_bench.budget import parse_budget
from lts_bench.registry import list_agents
from lts_bench.specs.suite import list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task, task_specs

SAMPLES = 10_000
LARGE = load_suite("large-npu")


@dataclass(frozen=True)
class Seen:
    """What one task shows, kept so that its tables need not be."""

    reference: float
    megatron_feasible: bool
    parameters: float
    devices: int
    network: tuple[str | int | None, ...]
    random_feasible: float


def _look(spec: TaskSpec) -> Seen:
    task = Task(spec)
    answers = task.evaluate(task.space.sample(SAMPLES, np.random.default_rng(1)))
    up, out = task.cluster.scale_up, task.cluster.scale_out
    return Seen(
        task.reference.goodput_per_npu,
        task.reference.meets_slo,
        task.model.parameters.total,
        task.cluster.devices,
        (up.kind, up.size if up.kind != "torus" else len(up.shape or ()), out.kind if out else None),
        float(answers["feasible"].mean()),
    )


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    """Every task of every suite, its tables built once."""
    return {name: _look(spec) for name, spec in task_specs().items()}


def test_the_built_in_suites_are_there() -> None:
    assert {"large-npu", "smoke"} <= set(list_suites())


@pytest.mark.parametrize("name", list_suites())
def test_a_suite_names_known_agents_a_known_budget_and_why_each_task_is_there(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert suite.description
    assert set(suite.agents) <= {info.name for info in list_agents()}
    assert parse_budget(suite.budget).evaluations > 0
    assert all(task.why and "\n" not in task.why for task in suite.tasks)


def test_a_task_of_the_same_name_is_the_same_in_all_suites() -> None:
    known = task_specs()
    assert all(known[task.name] == task for name in list_suites() for task in load_suite(name).tasks)


@pytest.mark.parametrize("name", task_specs())
def test_a_task_has_a_positive_reference(name: str, seen: dict[str, Seen]) -> None:
    assert np.isfinite(seen[name].reference)
    assert seen[name].reference > 0


@pytest.mark.parametrize("name", task_specs())
def test_a_task_can_be_solved(name: str, seen: dict[str, Seen]) -> None:
    assert seen[name].megatron_feasible or seen[name].random_feasible > 0


class TestLargeNpu:
    """What the suite's description promises."""

    @pytest.fixture()
    def large(self, seen: dict[str, Seen]) -> list[Seen]:
        return [seen[task.name] for task in LARGE.tasks]

    def test_256_to_4096_npus(self, large: list[Seen]) -> None:
        devices = {each.devices for each in large}
        assert (min(devices), max(devices)) == (256, 4096)

    def test_models_of_70_billion_to_above_1_trillion_parameters(self, large: list[Seen]) -> None:
        parameters = sorted(each.parameters for each in large)
        assert parameters[0] == pytest.approx(70e9, rel=0.02)
        assert parameters[-1] == pytest.approx(1.6e12, rel=0.02)

    def test_eight_kinds_of_network(self, large: list[Seen]) -> None:
        assert len({each.network for each in large}) == 8

    def test_loose_and_tight_limits(self, large: list[Seen]) -> None:
        shares = sorted(each.random_feasible for each in large)
        assert shares[-2] > 0.2
        assert shares[2] < 0.01

    def test_megatrons_pattern_fails_somewhere_but_not_everywhere(self, large: list[Seen]) -> None:
        assert 0 < sum(each.megatron_feasible for each in large) < len(large)

    def test_long_prompts_and_long_answers(self) -> None:
        workloads = [task.workload for task in LARGE.tasks]
        assert any(each.isl >= 16 * each.osl for each in workloads)
        assert any(each.osl >= 4 * each.isl for each in workloads)
        assert max(each.isl for each in workloads) >= 32_768
