from __future__ import annotations

from typing import Any

import pytest

from lts_bench.space.check import Checked
from lts_bench.space.disaggregated import CheckedPools, check_any, check_disaggregated, legal_any
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.failure import InputError

MODEL, CLUSTER = load_model("llama-3.1-8b"), load_cluster("h100x8")
GOOD: dict[str, Any] = {"prefill": {"replicas": 1, "pp": 4}, "decode": {"replicas": 2, "tp": 2}}


def test_two_parts_with_their_defaults() -> None:
    checked = check_disaggregated(GOOD, MODEL, CLUSTER)
    assert (checked.violations, checked.warnings) == ((), ())
    assert checked.strategy.degrees.devices == 8
    assert check_disaggregated(checked.strategy.to_json(), MODEL, CLUSTER).strategy == checked.strategy
    assert checked.strategy.degrees.label().startswith("prefill replicas=1 pp=4")


def test_devices_that_idle_are_a_warning() -> None:
    checked = check_disaggregated(GOOD | {"decode": {"replicas": 1}}, MODEL, CLUSTER)
    assert checked.warnings == ("5 of 8 devices are used; the score divides by 8",)


def test_the_pools_share_the_devices() -> None:
    checked = check_disaggregated(GOOD | {"decode": {"replicas": 5}}, MODEL, CLUSTER)
    assert [(each.failure, each.field) for each in checked.violations] == [("TOPOLOGY", "replicas")]
    assert checked.violations[0].message == "the pools need 4 + 5 devices of 8"


def test_violations_name_the_pool() -> None:
    checked = check_disaggregated(GOOD | {"decode": {"replicas": 1, "tp": 3}}, MODEL, CLUSTER)
    assert all(each.field == "decode.tp" and each.message.startswith("decode: ") for each in checked.violations)
    assert checked.violations


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"prefill": {"replicas": 1}}, r"needs a part for each pool and nothing else \(got \['prefill'\]\)"),
        (GOOD | {"tp": 8}, "needs a part for each pool and nothing else"),
        (GOOD | {"decode": {"tp": 2}}, "decode.replicas: must be stated"),
        (GOOD | {"decode": {"replicas": 1, "dcp": 2}}, "dcp: unknown field"),
        (GOOD | {"decode": 7}, "a strategy is a mapping"),
    ],
)
def test_what_is_no_strategy(document: Any, line: str) -> None:
    with pytest.raises(InputError, match=line):
        check_any(document, MODEL, CLUSTER)


def test_one_part_or_two() -> None:
    assert isinstance(check_any({"tp": 8}, MODEL, CLUSTER), Checked)
    assert isinstance(legal_any(GOOD, MODEL, CLUSTER), CheckedPools)
    with pytest.raises(InputError, match="not legal: TOPOLOGY: the pools need"):
        legal_any(GOOD | {"decode": {"replicas": 5}}, MODEL, CLUSTER)
