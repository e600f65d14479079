"""Precision from quantisation configs, and its overrides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.specs.config import load_model, model_from_config
from lts_bench.specs.failure import InputError
from lts_bench.specs.formats import DTYPE_BYTES, WeightGroup
from lts_bench.specs.quantization import FORMATS, KV_DTYPES, apply_precision

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
NVFP4 = {
    "quantization": {
        "quant_algo": "NVFP4",
        "group_size": 16,
        "kv_cache_quant_algo": None,
        "exclude_modules": ["model.layers.*.self_attn*", "lm_head", "model.embed_tokens"],
    }
}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
    "kv_cache_scheme": None,
    "ignore": ["lm_head"],
}


def dtypes(config: dict[str, Any]) -> dict[str, str]:
    precision = model_from_config({**CONFIG, "quantization_config": config}, "m").precision
    groups: tuple[WeightGroup, ...] = ("attention", "ffn", "embed", "head")
    return {group: precision.weights(group).dtype for group in groups} | {"kv": precision.kv}


def test_partial_blocks_have_their_scale() -> None:
    rows = FORMATS["fp8_block"].bytes(576, 128) - 576 * 128
    assert rows / FORMATS["fp8_block"].scale_bytes == 5


def test_an_expert_of_deepseek_v3_in_fp8() -> None:
    model = load_model("deepseek-v3")
    operators = model.layers[-1].operators(model.hidden)
    up, down = operators["experts.up"], operators["experts.down"]
    assert up.k * up.n + down.k * down.n == 44_040_192
    assert FORMATS["fp8"].bytes(up.n, up.k) + FORMATS["fp8"].bytes(down.n, down.k) == 44_040_192
    weight = model.precision.weights("experts")
    assert weight.bytes(up.n, up.k) + weight.bytes(down.n, down.k) == 44_040_192 + 4 * 44_040_192 / 128**2


def test_compressed_tensors_keep_head_embedding_and_cache() -> None:
    assert dtypes(COMPRESSED) == {"attention": "int8", "ffn": "int8", "embed": "bf16", "head": "bf16", "kv": "bf16"}


@pytest.mark.parametrize(
    "config",
    [
        {**COMPRESSED, "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
        {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    ],
)
def test_cache_in_eight_bits(config: dict[str, Any]) -> None:
    model = model_from_config({**CONFIG, "quantization_config": config}, "m")
    assert model.kv_bytes_per_token == 4 * 2 * 1024
    assert model.precision.kv == "fp8"


def test_side_file_with_exclusions(tmp_path: Path) -> None:
    config = json.loads(json.dumps(CONFIG))
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(NVFP4), encoding="utf-8")
    precision = load_model(str(tmp_path)).precision
    assert precision.weights("attention").dtype == "bf16"
    assert precision.weights("head").dtype == "bf16"
    assert precision.weights("ffn").bytes(2048, 1024) == 0.5625 * 2048 * 1024
    assert precision.kv == "bf16"


@pytest.mark.parametrize(
    ("patterns", "excluded"),
    [
        (["self_attn*", "lm_head"], {"attention"}),
        (["model.layers.*.self_attn"], {"attention"}),
        (["re:.*self_attn.*"], {"attention"}),
        (["language_model.model.layers.*.mlp*"], {"ffn"}),
        (["gate"], set()),
        ([f"model.layers.{i}.self_attn" for i in range(4)], {"attention"}),
        (["model.layers.0.self_attn"], set()),
        (["*"], {"attention", "ffn"}),
    ],
)
def test_patterns(patterns: list[str], excluded: set[str]) -> None:
    found = dtypes({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": patterns})
    assert {group for group in ("attention", "ffn") if found[group] == "bf16"} == excluded


def test_split_groups_warn() -> None:
    config = {"quant_method": "fp8", "ignored_layers": ["model.layers.0.self_attn"]}
    model = model_from_config({**CONFIG, "quantization_config": config}, "m")
    assert model.warnings == ("quantization_config excludes 4 of 16 attention modules: all quantised",)


def test_mxfp4_experts_leave_attention_alone() -> None:
    precision = load_model("gpt-oss-120b").precision
    assert precision.weights("experts").bytes(5760, 2880) == 4.25 / 8 * 5760 * 2880
    assert precision.weights("experts").activation == "bf16"
    assert [precision.weights(group).dtype for group in ("attention", "router", "embed", "head")] == ["bf16"] * 4


@pytest.mark.parametrize(
    ("config", "dtype", "block", "activation"),
    [
        ({"quant_method": "fp8"}, "fp8", None, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 64]}, "fp8", (128, 64), "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "int4", (1, 64), "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", None, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", (1, 64), "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "int4", (1, 128), "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "group_size": 128}, "fp8", (128, 128), "fp8"),
        ({"quant_method": "modelopt", "quant_algo": None}, "bf16", None, "bf16"),
    ],
)
def test_methods(config: dict[str, Any], dtype: str, block: tuple[int, int] | None, activation: str) -> None:
    weight = model_from_config({**CONFIG, "quantization_config": config}, "m").precision.weights("ffn")
    assert (weight.dtype, weight.block, weight.activation) == (dtype, block, activation)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "aqlm"}, "quantization_config.quant_method: is not supported .*'aqlm'.* legal: awq"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED"}, "quantization_config.quant_algo"),
        ({"quant_method": "awq", "bits": 3}, "quantization_config.bits"),
        ({"quant_method": "awq", "group_size": 0}, "quantization_config.group_size"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "quantization_config.weight_block_size"),
        ({"quant_method": "fp8", "kv_cache_quant_algo": "FP3"}, "quantization_config.kv_cache_quant_algo"),
        ({"quant_method": "fp8", "ignore": ["re:("]}, "not a regular expression"),
        ("fp8", "quantization_config: must be an object"),
    ],
)
def test_refused_quantisation(config: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model_from_config({**CONFIG, "quantization_config": config}, "m")


def test_override_keeps_serving_exceptions() -> None:
    precision = apply_precision(load_model("llama-3.1-8b"), "fp4").precision
    assert precision.weights("ffn").bytes(128, 128) / 128**2 == 0.5625
    assert precision.weights("attention").activation == "fp4"
    assert {precision.weights(group).dtype for group in ("embed", "head", "router")} == {"bf16"}


def test_override_keeps_the_config_s_exclusions() -> None:
    precision = apply_precision(load_model("gpt-oss-20b"), "fp8").precision
    assert (precision.weights("experts").dtype, precision.weights("attention").dtype) == ("fp8", "bf16")


@given(st.sampled_from(["config", *FORMATS]), st.sampled_from(["config", *KV_DTYPES]))
def test_overrides_are_idempotent_and_independent(precision: str, kv: str) -> None:
    model = load_model("deepseek-v3")
    once = apply_precision(model, precision, kv)
    assert apply_precision(once, precision, kv) == once
    assert apply_precision(apply_precision(model, precision), "config", kv) == once
    assert once.kv_bytes_per_token == 61 * 576 * DTYPE_BYTES["bf16" if kv == "config" else kv]
    assert once.parameters == model.parameters


def test_config_changes_nothing() -> None:
    model = load_model("qwen3-8b")
    assert apply_precision(model, "config", "config") == model
    assert apply_precision(model, "bf16") == model


def test_unknown_precision_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"precision: is unknown; did you mean 'fp8_block'\?"):
        apply_precision(load_model("qwen3-8b"), "fp8_blok")
