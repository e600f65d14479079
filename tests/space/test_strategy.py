from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_settings import dense_model, moe_model

from lts_bench.space.strategy import Degrees, even_stages, parse_draft
from lts_bench.specs.failure import InputError

MODEL = moe_model()


@given(st.integers(1, 128), st.integers(1, 128))
def test_every_layer_is_owned_once(layers: int, pp: int) -> None:
    if pp <= layers:
        stages = even_stages(layers, pp)
        assert len(stages) == pp and sum(stages) == layers
        assert max(stages) - min(stages) <= 1 and list(stages) == sorted(stages, reverse=True)


def test_61_layers_on_4_stages() -> None:
    assert even_stages(61, 4) == (16, 15, 15, 15)


def test_sizes_of_degrees() -> None:
    d = Degrees(replicas=2, pp=3, dp=4, tx=2, ty=4, ep=32, etp=1)
    assert (d.tp, d.stage, d.devices) == (8, 32, 192)
    assert d.label() == "replicas=2 pp=3 dp=4 tp=2x4 ep=32 etp=1"


def test_what_is_left_out() -> None:
    draft = parse_draft({"tp": 4}, MODEL)
    assert (draft.replicas, draft.pp, draft.dp, draft.tx, draft.ty, draft.ep, draft.etp) == (
        None,
        1,
        1,
        1,
        4,
        None,
        None,
    )
    assert draft.sharding == {} and draft.stages is None and not draft.padding


def test_aliases_mean_the_same() -> None:
    assert parse_draft({"tp": 8, "moe_tp": 2, "moe_ep": 4}, MODEL) == parse_draft({"tp": 8, "etp": 2, "ep": 4}, MODEL)


def test_null_is_absent() -> None:
    assert parse_draft({"tp": 8, "ep": None, "sharding": None, "stages": None, "padding": None}, MODEL) == parse_draft(
        {"tp": 8}, MODEL
    )


def test_a_single_letter_is_on_the_inner_axis() -> None:
    draft = parse_draft(
        {"tp": [2, 4], "sharding": {"moe.router": "M", "moe.experts.up": "K", "head": ["M", "R"]}}, MODEL
    )
    assert draft.sharding == {"moe.router": ("R", "M"), "moe.experts.up": ("K",), "head": ("M", "R")}


@pytest.mark.parametrize(
    ("document", "field", "hint"),
    [
        ({"tpp": 8}, "tpp", "tp"),
        ({"tp": 8, "dcp": 8}, "dcp", None),
        ({"ep": 4, "moe_ep": 8}, "ep", None),
        ({"tp": 0}, "tp", None),
        ({"tp": True}, "tp", None),
        ({"tp": 2.0}, "tp", None),
        ({"tp": [2, 2, 2]}, "tp", None),
        ({"redundant_experts": -1}, "redundant_experts", None),
        ({"padding": 1}, "padding", None),
        ({"stages": [1, "2"]}, "stages", None),
        ({"sharding": {"moe.attention.qvk": "N"}}, "sharding.moe.attention.qvk", "moe.attention.qkv"),
        ({"sharding": {"moe.router": "N"}}, "sharding.moe.router", None),
        ({"sharding": {"moe.experts.up": ["N", "R"]}}, "sharding.moe.experts.up", None),
        ({"sharding": ["N"]}, "sharding", None),
        ([8], None, None),
    ],
)
def test_what_is_no_strategy(document: Any, field: str | None, hint: str | None) -> None:
    with pytest.raises(InputError) as error:
        parse_draft(document, MODEL, "mine.json")
    assert error.value.field == field and error.value.source == "mine.json"
    assert hint is None or f"did you mean '{hint}'" in str(error.value)


def test_operators_are_those_of_the_model() -> None:
    with pytest.raises(InputError):
        parse_draft({"sharding": {"moe.router": "M"}}, dense_model())
