from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_settings import dense_model

from lts_bench.space.operators import Operator
from lts_bench.space.rules import Extent, OperatorRules, breaches, divisors, experts_of, nests
from lts_bench.specs.config import load_model, model_from_config
from lts_bench.specs.failure import Failure
from lts_bench.specs.formats import Precision
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import FORMATS


def operator(rules: OperatorRules, key: str) -> Operator:
    return next(each for each in rules.operators if each.key == key)


def failures(model: Model, key: str, choice: tuple[str, ...], sizes: tuple[int, ...]) -> set[Failure]:
    rules = OperatorRules(model)
    return {breach.failure for breach in rules.breaches(operator(rules, key), choice, sizes)}


def legal_tp(**config: Any) -> tuple[int, ...]:
    base = {"model_type": "llama", "num_hidden_layers": 2, "vocab_size": 32000}
    return OperatorRules(model_from_config(base | config, "some")).megatron_tp()


def test_heads_and_width_decide_together() -> None:
    # 52 heads, but 17,920 is no multiple of 13.
    assert legal_tp(hidden_size=6656, num_attention_heads=52, intermediate_size=17920) == (1, 2, 4)


def test_kv_heads_are_replicated_only_by_whole_numbers() -> None:
    extent = Extent("num_key_value_heads", 4, replicable=True)
    assert [p for p in range(1, 17) if extent.divisible(p)] == [1, 2, 4, 8, 12, 16]


@pytest.mark.parametrize(
    ("width", "quantised", "legal"),
    [(29568, True, (1,)), (29696, True, (1, 2, 4, 8)), (29568, False, (1, 2, 4, 8, 16, 32, 64)), (11008, True, (1, 2))],
)
def test_groups_of_128(width: int, quantised: bool, legal: tuple[int, ...]) -> None:
    config: dict[str, Any] = {"hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8,
                              "intermediate_size": width}  # fmt: skip
    if quantised:
        config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 128}
    assert legal_tp(**config) == legal


def test_blocks_that_are_cut_are_a_failure_of_their_own() -> None:
    model = load_model("deepseek-v3")
    # 1536 / 8 = 192 query ranks are 1.5 blocks; 7168 / 8 = 896 are seven; 192 wide heads need two a device.
    assert failures(model, "moe.attention.q_down", ("R", "N"), (1, 8)) == {Failure.BLOCK}
    assert not failures(model, "moe.attention.q_down", ("R", "K"), (1, 8))
    assert failures(model, "moe.attention.q_up", ("R", "N"), (1, 128)) == {Failure.BLOCK}
    assert not failures(model, "moe.attention.q_up", ("R", "N"), (1, 64))
    # 576 latent features are 4.5 blocks: only an unsplit operator passes.
    assert failures(model, "moe.attention.kv_down", ("R", "N"), (1, 2)) == {Failure.BLOCK}
    assert not failures(model, "moe.attention.kv_down", ("R", "R"), (1, 2))
    assert failures(model, "moe.attention.kv_down", ("R", "N"), (1, 5)) == {Failure.DIVISIBILITY}


def test_shared_experts_are_checked_too() -> None:
    model = load_model("qwen3-next-80b-a3b")
    blocks = replace(model, precision=Precision(FORMATS["fp8_block"]))
    assert failures(blocks, "linear_moe.shared.up", ("R", "N"), (1, 8)) == {Failure.BLOCK}  # 512 / 8 = 64
    assert not failures(model, "linear_moe.shared.up", ("R", "N"), (1, 8))


def test_a_letter_on_both_axes_splits_by_their_product() -> None:
    model = dense_model()  # 8 heads
    assert not failures(model, "dense.attention.core", ("heads", "heads"), (2, 4))
    assert failures(model, "dense.attention.core", ("heads", "heads"), (4, 4)) == {Failure.DIVISIBILITY}
    assert not failures(model, "dense.attention.core", ("heads", "batch"), (4, 4))


def test_tokens_and_copies_divide_nothing() -> None:
    model = dense_model()
    for letter in ("M", "R"):
        assert not failures(model, "dense.ffn.up", (letter, letter), (7, 11))
    assert failures(model, "dense.stream", ("R", "N"), (1, 7)) == {Failure.DIVISIBILITY}
    assert not failures(model, "embed", ("R", "vocabulary"), (1, 7))  # padded
    assert failures(model, "embed", ("R", "hidden"), (1, 7)) == {Failure.DIVISIBILITY}


def test_legal_choices_are_canonical() -> None:
    rules = OperatorRules(dense_model())
    choices = rules.legal_choices(operator(rules, "dense.ffn.up"), (1, 4))
    assert choices == (("R", "M"), ("R", "K"), ("R", "N"), ("R", "R"))
    assert rules.legal_choices(operator(rules, "dense.ffn.up"), (1, 1)) == (("R", "R"),)


def test_legal_degrees_of_real_models() -> None:
    assert OperatorRules(load_model("llama-3.1-70b")).megatron_tp() == (1, 2, 4, 8, 16, 32, 64)
    assert OperatorRules(load_model("llama-3.1-70b")).megatron_tp(8) == (1, 2, 4, 8)


@given(st.integers(1, 300), st.integers(1, 64))
def test_a_breach_names_the_rule(size: int, degree: int) -> None:
    found = list(breaches((Extent("width", size),), degree))
    assert bool(found) == (size % degree != 0)
    assert all(str(size) in breach.rule and breach.failure is Failure.DIVISIBILITY for breach in found)


@pytest.mark.parametrize(
    ("etp", "tx", "ty", "dp", "nested"),
    [
        (3, 1, 4, 3, False),  # cuts the tensor-parallel group
        (2, 1, 4, 3, True), (4, 1, 4, 3, True), (12, 1, 4, 3, True), (8, 1, 4, 3, False),
        (4, 2, 4, 1, True), (8, 2, 4, 1, True), (8, 4, 4, 1, True), (12, 4, 4, 1, False), (6, 3, 2, 1, True),
    ],
)  # fmt: skip
def test_nesting(etp: int, tx: int, ty: int, dp: int, nested: bool) -> None:
    assert nests(etp, tx, ty, dp) is nested


@given(st.integers(1, 500))
def test_divisors(number: int) -> None:
    found = divisors(number)
    assert found == tuple(sorted(found)) and found[0] == 1 and found[-1] == number
    assert all(number % d == 0 for d in found) and len(found) == sum(number % d == 0 for d in range(1, number + 1))


def test_experts() -> None:
    assert experts_of(load_model("deepseek-v3")) == 256 and experts_of(load_model("llama-3.1-8b")) == 0
    assert divisors(0) == (1,)
