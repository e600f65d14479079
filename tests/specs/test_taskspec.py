from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import convert
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Workload

TASK: dict[str, Any] = {
    "name": "llama-3.1-8b/h100x8/chat",
    "model": "llama-3.1-8b",
    "cluster": "h100x8",
    "workload": {"isl": 1024, "osl": 1024, "slo": {"tpot_ms": 50}},
}


def test_a_spec_with_its_defaults_survives_plain_data() -> None:
    spec = convert(TASK, TaskSpec, "suite")
    assert (spec.engine, spec.precision, spec.kv_precision, spec.feedback, spec.why) == (
        "generic", "config", "config", "graded", "",
    )  # fmt: skip
    assert convert(msgspec.to_builtins(spec), TaskSpec, "again") == spec


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b/h100x8/", "llama-3.1-8b/h100x80/chat", "h100x8/llama-3.1-8b/chat", "chat"]
)
def test_names_begin_with_model_and_cluster(name: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(TASK | {"name": name}, TaskSpec, "suite")
    assert f"suite: name: must begin with the model and the cluster (got {name!r})" in str(caught.value)
    assert "legal: llama-3.1-8b/h100x8/…" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"precision": "fp9"}, "precision: not a legal value; did you mean 'fp8'?"),
        ({"kv_precision": "bf61"}, "kv_precision: not a legal value; did you mean 'bf16'?"),
        ({"feedback": "none"}, "feedback: not a legal value"),
        ({"workload": {"isl": 1}}, "workload.osl: required key is missing"),
        ({"workload": "isl=1,osl=1"}, "workload: must be a mapping"),
        ({"wokload": 1}, "wokload: unknown key; did you mean 'workload'?"),
    ],
)
def test_bad_specs_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(TASK | change, TaskSpec, "suite")
    assert told in str(caught.value)


def test_specs_are_built_in_python_under_the_same_rule() -> None:
    with pytest.raises(InputError, match="must begin with the model"):
        TaskSpec("chat", "llama-3.1-8b", "h100x8", Workload(1, 1))
