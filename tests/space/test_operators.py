from __future__ import annotations

import pytest

from lts_bench.space.operators import MEGATRON, operators
from lts_bench.specs.config import load_model


def keys(name: str) -> list[str]:
    return [operator.key for operator in operators(load_model(name))]


def test_a_dense_model() -> None:
    assert keys("llama-3.1-8b") == [
        "dense.stream", "dense.attention.qkv", "dense.attention.core", "dense.attention.out",
        "dense.ffn.up", "dense.ffn.down", "embed", "head",
    ]  # fmt: skip


def test_latent_attention_and_shared_experts() -> None:
    found = keys("deepseek-v3")
    assert [key for key in found if key.startswith("moe.")] == [
        f"moe.{name}"
        for name in (
            "stream", "attention.q_down", "attention.q_up", "attention.kv_down", "attention.kv_up", "attention.core",
            "attention.out", "router", "experts.up", "experts.down", "shared.up", "shared.down",
        )
    ]  # fmt: skip
    assert "dense.ffn.up" in found and "dense.router" not in found


def test_kinds_name_the_mixer_where_there_are_two() -> None:
    found = keys("qwen3-next-80b-a3b")
    assert "linear_moe.attention.qkv" in found and "attention_moe.attention.qkv" in found


def test_a_recurrence_has_no_cache_to_split() -> None:
    cores = {operator.key: operator.letters for operator in operators(load_model("qwen3-next-80b-a3b"))
             if operator.name == "attention.core"}  # fmt: skip
    assert cores["linear_moe.attention.core"] == ("heads", "batch", "R")
    assert cores["attention_moe.attention.core"] == ("heads", "batch", "kv_sequence", "R")


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "qwen3-next-80b-a3b"])
def test_choices_are_pairs_x_major_and_megatron_is_one(name: str) -> None:
    for operator in operators(load_model(name)):
        letters = operator.letters
        assert operator.megatron == MEGATRON[operator.name] and operator.megatron in letters
        assert "R" in letters
        assert len(operator.choices) == len(set(operator.choices)) == len(letters) ** operator.axes
        for index, choice in enumerate(operator.choices):
            assert operator.index(choice) == index
            if operator.axes == 2:
                assert index == len(letters) * letters.index(choice[0]) + letters.index(choice[1])
        assert operator.axes == (1 if operator.name.startswith("experts.") else 2)
