from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, list_suites, load_suite


def task(name: str = "m/h100x8/chat") -> dict[str, Any]:
    return {"name": name, "model": "m", "cluster": "h100x8", "workload": {"isl": 1, "osl": 1}, "why": "a test"}


def write_suite(path: Path, **change: Any) -> Path:
    data = {
        "name": "mine",
        "description": "One task.",
        "agents": ["random"],
        "seeds": 3,
        "budget": "e1k",
        "tasks": [task()],
    }
    path.write_bytes(msgspec.yaml.encode(data | change))
    return path


@pytest.mark.parametrize("name", list_suites())
def test_built_in_suites_load_under_their_own_name(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert all(task.why for task in suite.tasks)


def test_a_suite_of_the_users_own(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path / "mine.yaml"))
    assert isinstance(suite, Suite)
    assert (suite.agents, suite.seeds, suite.budget) == (("random",), 3, "e1k")
    assert [each.name for each in suite.tasks] == ["m/h100x8/chat"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tasks": [task(), task()]}, "tasks: occurs twice (got 'm/h100x8/chat')"),
        ({"tasks": [task(), task("m/chat")]}, "tasks[1].name: must begin with the model and the cluster"),
        ({"tasks": []}, "tasks: must not be empty"),
        ({"agents": []}, "agents: must not be empty"),
        ({"agents": ["a", "a"]}, "agents: occurs twice (got 'a')"),
        ({"seeds": 0}, "seeds: must be >= 1"),
        ({"seed": 1}, "seed: unknown key; did you mean 'seeds'?"),
    ],
)
def test_bad_suites_are_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = write_suite(tmp_path / "mine.yaml", **change)
    with pytest.raises(InputError) as caught:
        load_suite(path)
    assert f"{path}: {told}" in str(caught.value)


def test_unknown_suites_are_named() -> None:
    with pytest.raises(InputError, match="suite: unknown suite"):
        load_suite("no-such-suite")
