"""The built-in suites: every task can be solved, and each suite covers what it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from lts_bench.budget import parse_budget
from lts_bench.registry import list_agents
from lts_bench.report.cards import Card, read_deck
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.layers import MoeFfn
from lts_bench.specs.suite import Suite, list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task, task_specs

SAMPLES = 10_000
LARGE = load_suite("large-npu")
WRITTEN = list_suites(generated=False)


@dataclass(frozen=True)
class Seen:
    """What one task shows, kept so that its tables need not be."""

    reference: float
    megatron_feasible: bool
    parameters: float
    devices: int
    network: tuple[str | int | None, ...]
    random_feasible: float


def network(name: str) -> tuple[str | int | None, ...]:
    cluster = load_cluster(name)
    up, out = cluster.scale_up, cluster.scale_out
    return up.kind, up.size if up.kind != "torus" else len(up.shape or ()), out.kind if out else None


def _look(spec: TaskSpec) -> Seen:
    task = Task(spec)
    answers = task.evaluate(task.space.sample(SAMPLES, np.random.default_rng(1)))
    return Seen(
        task.reference.goodput_per_npu,
        task.reference.meets_slo,
        task.model.parameters.total,
        task.cluster.devices,
        network(spec.cluster),
        float(answers["feasible"].mean()),
    )


def devices(suite: Suite) -> list[int]:
    return [load_cluster(task.cluster).devices for task in suite.tasks]


def is_routed(model: str) -> bool:
    return any(isinstance(layer.ffn, MoeFfn) for layer in load_model(model).layers)


def cards(name: str) -> list[Card]:
    return list(read_deck(name).cards)


def test_the_built_in_suites_are_there() -> None:
    written = {"claims", "core", "dense", "disagg", "hard", "large-npu", "moe", "slo", "smoke", "topology"}
    assert set(WRITTEN) == written
    assert set(list_suites()) == written | {"train", "test"}


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
    same = [msgspec.structs.replace(known[task.name], why="") == msgspec.structs.replace(task, why="")
            for name in WRITTEN for task in load_suite(name).tasks]  # fmt: skip
    assert all(same)


@pytest.mark.parametrize("name", list_suites())
def test_no_task_is_there_twice_under_two_names(name: str) -> None:
    unnamed = Counter(msgspec.structs.replace(task, name=f"{task.model}/{task.cluster}/x", why="")
                      for task in load_suite(name).tasks)  # fmt: skip
    assert max(unnamed.values()) == 1


@pytest.mark.parametrize("name", WRITTEN)
def test_every_model_and_cluster_is_built_in(name: str) -> None:
    for task in load_suite(name).tasks:
        load_model(task.model)
        load_cluster(task.cluster)


@pytest.mark.parametrize(("name", "admission"), [("core", "core"), ("dense", "core"), ("hard", "hard"), ("moe", "core"),
                                                 ("topology", "core"), ("slo", None), ("claims", None)])  # fmt: skip
def test_the_admission_tests_are_those_of_the_rules(name: str, admission: str | None) -> None:
    assert load_suite(name).admission == admission


class TestCore:
    """Sixteen tasks across regimes."""

    def test_ten_seeds_of_a_thousand_evaluations(self) -> None:
        assert [(load_suite(name).seeds, load_suite(name).budget) for name in ("core", "hard")] == [(10, "e1k")] * 2

    def test_sizes_networks_and_kinds_of_models(self) -> None:
        suite = load_suite("core")
        kinds = Counter(is_routed(task.model) for task in suite.tasks)
        assert len(suite.tasks) == 16
        assert min(kinds.values()) >= 7
        assert (min(devices(suite)), max(devices(suite))) == (16, 2048)
        assert len({network(task.cluster) for task in suite.tasks}) >= 7

    def test_long_prompts_and_long_answers(self) -> None:
        workloads = [task.workload for task in load_suite("core").tasks]
        assert sum(each.isl >= 8 * each.osl for each in workloads) >= 4
        assert sum(each.osl >= each.isl for each in workloads) >= 2

    def test_loose_and_tight_limits(self) -> None:
        shares = sorted(card.feasible for card in cards("core"))
        assert shares[1] < 0.01 < 0.5 < shares[-2]


class TestHard:
    def test_it_has_a_needle(self) -> None:
        assert min(card.feasible for card in cards("hard")) < 1e-4

    def test_mixed_layers_and_dimensions_that_are_no_powers_of_two(self) -> None:
        models = {task.model: load_model(task.model) for task in load_suite("hard").tasks}
        assert sum(len(model.kinds) > 1 for model in models.values()) >= 3
        odd = [
            model for model in models.values() if any(layer.mixer and layer.mixer.heads % 32 for layer in model.layers)
        ]
        assert odd


class TestDenseAndMoe:
    def test_of_one_kind_from_a_node_to_4096_devices(self) -> None:
        for name, routed in (("dense", False), ("moe", True)):
            suite = load_suite(name)
            assert 10 <= len(suite.tasks) <= 12
            assert {is_routed(task.model) for task in suite.tasks} == {routed}
            assert min(devices(suite)) <= 16 and max(devices(suite)) == 4096
            assert len({task.model for task in suite.tasks}) >= 7
            assert len({network(task.cluster) for task in suite.tasks}) >= 5


class TestTopology:
    def test_one_model_workload_and_size_on_nine_networks(self) -> None:
        suite = load_suite("topology")
        assert len({(task.model, task.workload) for task in suite.tasks}) == 1
        assert len({(*network(task.cluster), task.cluster.partition("-")[0]) for task in suite.tasks}) >= 8
        assert set(devices(suite)) == {256, 288}


class TestSlo:
    def test_one_model_and_cluster_from_loose_to_a_needle(self) -> None:
        suite = load_suite("slo")
        limits = [task.workload.slo.tpot_ms or 0.0 for task in suite.tasks]
        assert len({(task.model, task.cluster, task.workload.isl, task.workload.osl) for task in suite.tasks}) == 1
        assert limits == sorted(limits, reverse=True)
        shares = [card.feasible for card in cards("slo")]
        goodputs = [card.goodput_per_npu for card in cards("slo")]
        assert shares[0] > 0.1 and shares[-1] < 1e-4
        assert goodputs == sorted(goodputs, reverse=True)


class TestClaims:
    def test_routed_models_on_hundreds_to_thousands_of_h100(self) -> None:
        suite = load_suite("claims")
        assert all(task.cluster.startswith("h100x") and is_routed(task.model) for task in suite.tasks)
        assert (min(devices(suite)), max(devices(suite))) == (256, 4096)
        assert max(load_model(task.model).parameters.total for task in suite.tasks) > 1.6e12

    def test_every_task_comes_with_both_kinds_of_feedback(self) -> None:
        tasks = {task.name: task for task in load_suite("claims").tasks}
        flat = {name: task for name, task in tasks.items() if task.feedback == "flat"}
        assert 2 * len(flat) == len(tasks)
        for name, task in flat.items():
            graded = tasks[name.removesuffix("-flat")]
            assert msgspec.structs.replace(task, name=graded.name, feedback="graded", why=graded.why) == graded


@pytest.fixture(scope="module")
def large() -> list[Seen]:
    """Every task of large-npu, its tables built once."""
    return [_look(spec) for spec in LARGE.tasks]


class TestLargeNpu:
    """What the suite's description promises."""

    def test_references_are_positive(self, large: list[Seen]) -> None:
        assert all(np.isfinite(each.reference) and each.reference > 0 for each in large)

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
