from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.collectives import REGIMES, Collectives, load_collectives
from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import convert

SHELF = Shelf("collectives", Collectives, "lts_bench.data", "collectives")
LINE: dict[str, Any] = {"latency_us": 3, "efficiency": 0.5}
ERRORS = {"all_reduce": 0.1, "all_gather": 0.1, "all_to_all": 0.1}
GIVEN: dict[str, Any] = {"all_reduce": [LINE], "all_gather": [LINE], "all_to_all": [LINE], "relative_error": ERRORS}


@pytest.mark.parametrize("name", SHELF.names())
def test_built_in_constants_survive_a_round_trip(name: str) -> None:
    constants = load_collectives(name)
    assert convert(msgspec.to_builtins(constants), Collectives, name) == constants
    assert ("expert_exchange" in constants.relative_error) == (constants.expert_exchange is not None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"all_reduce": []}, f"net: all_reduce: must hold 1 to {REGIMES} regimes (got 0)"),
        ({"all_reduce": [LINE] * (REGIMES + 1)}, f"must hold 1 to {REGIMES} regimes (got {REGIMES + 1})"),
        ({"all_gather": [LINE | {"efficiency": 0}]}, "net: all_gather[0].efficiency: must be > 0"),
        (
            {"all_to_all": [LINE | {"latency": 1}]},
            "all_to_all[0].latency: unknown key; did you mean 'latency_us'?",
        ),
        ({"relative_error": {"all_reduce": 0.1}}, "net: relative_error.all_gather: required key is missing"),
        ({"relative_error": ERRORS | {"all": 1}}, "net: relative_error.all: unknown key"),
        (
            {"custom_all_reduce": {"mine": {"devices": 4}}},
            "custom_all_reduce.mine.regimes: required key is missing",
        ),
    ],
)
def test_rules(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(GIVEN | change, Collectives, "net")
    assert told in str(caught.value)


def test_what_may_be_left_out() -> None:
    constants = convert(GIVEN, Collectives, "net")
    assert constants.custom_all_reduce == {}
    assert constants.expert_exchange is None
