"""Generated suites: every task from its place alone, no two alike, splits that share nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.generate import solvable, solvable_tasks
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.failure import InputError
from lts_bench.specs.generated import SPLITS, find_task, named_tasks, proposal, split_of, stored_redraws
from lts_bench.specs.suite import GENERATED, list_suites, load_suite

MANY = 3000
splits = st.sampled_from(sorted(SPLITS))


def network(name: str) -> tuple[object, ...]:
    """The kinds of a cluster's networks: of its domain, with size or number of axes, and of what joins domains."""
    cluster = load_cluster(name)
    up, out = cluster.scale_up, cluster.scale_out
    inside = (up.kind, len(up.shape)) if up.shape else (up.kind, up.size)
    return (*inside, *((out.kind, out.oversubscription > 1) if out else ()))


@given(splits, st.integers(0, 10**6), st.integers(0, 3), st.text("abc0", max_size=4))
def test_a_task_depends_on_its_place_alone(split: str, index: int, attempt: int, salt: str) -> None:
    task = proposal(split, index, attempt, salt)
    assert task == proposal(split, index, attempt, salt)
    again = proposal(split, index, attempt + 1, salt)
    assert (task.name, task.model, task.cluster) == (again.name, again.model, again.cluster)
    assert task.workload != again.workload


@pytest.mark.parametrize("split", sorted(SPLITS))
def test_thousands_are_distinct(split: str) -> None:
    tasks = [proposal(split, index) for index in range(MANY)]
    assert len({task.name for task in tasks}) == MANY
    assert len({(task.model, task.cluster, task.workload) for task in tasks}) == MANY


def test_another_salt_gives_other_tasks() -> None:
    first, second = ([proposal("heldout", index, salt=salt) for index in range(50)] for salt in ("a", "b"))
    assert not {task.workload for task in first} & {task.workload for task in second}
    assert not {task.name for task in first} & {task.name for task in second}


def test_splits_share_neither_models_nor_networks() -> None:
    for one, other in itertools.combinations(SPLITS.values(), 2):
        assert not set(one.models) & set(other.models)
        assert not set(map(network, one.clusters)) & set(map(network, other.clusters))


def test_splits_share_no_family_of_models() -> None:
    families = [{name.partition("-")[0].rstrip("0123456789.") for name in split.models} for split in SPLITS.values()]
    families[1] = {"gpt-oss" if name == "gpt" else name for name in families[1]}
    assert not any(one & other for one, other in itertools.combinations(families, 2))


@given(splits, st.integers(0, 10**5))
def test_limits_are_realistic_and_lengths_fit_the_model(split: str, index: int) -> None:
    workload = proposal(split, index).workload
    assert workload.slo.ttft_ms is not None and workload.slo.tpot_ms is not None
    assert 99 <= workload.slo.ttft_ms <= 120_000
    assert 4.9 <= workload.slo.tpot_ms <= 1_000
    context = load_model(proposal(split, index).model).max_context
    assert context is None or workload.isl + workload.osl <= context


@pytest.mark.parametrize("name", GENERATED)
def test_a_built_in_suite_is_what_was_drawn(name: str) -> None:
    suite = load_suite(name)
    assert suite.tasks == named_tasks(name)
    assert len(suite.tasks) == SPLITS[name].tasks
    assert name in list_suites() and name not in list_suites(generated=False)


def test_heldout_is_no_built_in_suite_and_other_splits_are_refused() -> None:
    assert GENERATED == ("test", "train")
    with pytest.raises(InputError, match="split: no such split"):
        split_of("validation")


def test_redraws_name_tasks_of_the_suites() -> None:
    for name, counts in stored_redraws().items():
        assert all(int(index) < SPLITS[name].tasks and count > 0 for index, count in counts.items())


def test_a_task_is_found_by_its_name() -> None:
    task = load_suite("train").tasks[17]
    assert task.name.endswith("/train-00017")
    assert find_task(task.name) == task
    for wrong in ("llama-3.1-8b/h100x8/chat", "x/y/train-00017", "x/y/train-abc", "x/y/train-99999", ""):
        assert find_task(wrong) is None


@pytest.mark.parametrize("split", GENERATED)
def test_a_sample_can_be_solved(split: str) -> None:
    tasks = load_suite(split).tasks
    redrawn = [int(index) for index in stored_redraws()[split]]
    assert all(solvable(tasks[index]) for index in {0, len(tasks) - 1, *redrawn[:2]})


def test_what_was_drawn_again_was_not_solved() -> None:
    index, count = next(iter(stored_redraws()["train"].items()))
    assert not any(solvable(proposal("train", int(index), attempt)) for attempt in range(count))


def test_tasks_without_end_begin_with_those_of_the_suite() -> None:
    assert tuple(itertools.islice(solvable_tasks("train"), 3)) == load_suite("train").tasks[:3]
