"""What the reader refuses, and what it assumes with a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.specs.config import list_models, load_model, model_from_config
from lts_bench.specs.failure import InputError
from lts_bench.specs.fields import ALIASES

CONFIG: dict[str, Any] = {
    "model_type": "mixtral",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_missing_fields_are_named(key: str) -> None:
    with pytest.raises(InputError, match=rf"^a\.json: {key}: is missing; keys tried: {key}"):
        model_from_config({**CONFIG, key: None}, "m", "a.json")


@pytest.mark.parametrize("value", [0, -3, 2.5, "many", True, float("inf"), [4]])
def test_sizes_are_positive_whole_numbers(value: Any) -> None:
    with pytest.raises(InputError, match="num_hidden_layers: must be a whole number ≥ 1"):
        model_from_config({**CONFIG, "num_hidden_layers": value}, "m")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads: must divide num_attention_heads=8"),
        ({"num_experts_per_tok": 9}, "num_experts_per_tok: must not exceed the 8 experts"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: must be true or false"),
        ({"torch_dtype": "auto"}, "torch_dtype: is not a dtype .* legal: bfloat16"),
        ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype: is not a dtype"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder: is not supported"),
        ({"linear_attn_config": {"kda_layers": [1]}}, "linear_attn_config: is not supported"),
        ({"model_type": "t5"}, "encoder–decoder models are not supported"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window: is missing"),
        ({"layer_types": ["linear_attention"] * 4}, "linear layers of a kind that is not supported"),
    ],
)
def test_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        model_from_config({**CONFIG, **keys}, "m")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("dtypes", "found", "warns"),
    [
        ({"torch_dtype": None, "dtype": "bfloat16"}, "bf16", None),
        ({"torch_dtype": "float16"}, "fp16", None),
        ({"torch_dtype": "float32"}, "fp32", None),
        ({"torch_dtype": None}, "bf16", "no dtype: bf16 is assumed"),
        ({"torch_dtype": "float32", "dtype": "bfloat16"}, "bf16", "dtype and torch_dtype disagree"),
    ],
)
def test_dtypes(dtypes: dict[str, Any], found: str, warns: str | None) -> None:
    model = model_from_config({**CONFIG, **dtypes}, "m")
    assert (model.precision.default.dtype, model.precision.kv) == (found, found)
    assert len(model.warnings) == bool(warns)
    assert all((warns or "") in each for each in model.warnings)


def test_unknown_family_is_read_like_llama_with_a_warning() -> None:
    unknown = model_from_config({**CONFIG, "model_type": "frobnicator"}, "m")
    assert unknown.parameters == model_from_config(CONFIG, "m").parameters
    assert unknown.warnings == ("model_type 'frobnicator' is unknown: read like Llama",)


def test_architecture_counts_before_the_model_type() -> None:
    config = {**CONFIG, "model_type": "glm", "architectures": ["Glm4MoeForCausalLM"], "attention_bias": True}
    plain = {**config, "architectures": None, "model_type": "glm4_moe"}
    assert model_from_config(config, "m") == model_from_config(plain, "m")


def test_features_without_a_model_warn() -> None:
    assert any("index_topk" in each for each in model_from_config({**CONFIG, "index_topk": 2048}, "m").warnings)


RENAMED = [(own, key) for own in CONFIG for keys in ALIASES.values() if own in keys for key in keys if key != own]


@pytest.mark.parametrize(("own", "key"), RENAMED)
def test_any_alias_gives_the_same_model(own: str, key: str) -> None:
    config: dict[str, Any] = {each: value for each, value in CONFIG.items() if each != own}
    parent, _, child = key.partition(".")
    config[parent] = {child: CONFIG[own]} if child else CONFIG[own]
    assert model_from_config(config, "m").layers == model_from_config(CONFIG, "m").layers


@given(st.sets(st.sampled_from(sorted(key for keys in ALIASES.values() for key in keys if "." not in key))))
def test_null_is_absent(keys: set[str]) -> None:
    nulls = {key: None for key in keys if key not in CONFIG}
    assert model_from_config({**CONFIG, **nulls}, "m") == model_from_config(CONFIG, "m")


@given(st.dictionaries(st.sampled_from(["use_cache", "bos_token_id", "rope_theta", "note"]), st.integers()))
def test_unknown_keys_change_nothing(extra: dict[str, int]) -> None:
    assert model_from_config({**CONFIG, **extra}, "m") == model_from_config(CONFIG, "m")


def test_names_in_any_case() -> None:
    assert load_model("Llama-3.1-8B") == load_model("llama-3.1-8b")


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"did you mean 'llama-3\.1-8b'"):
        load_model("lama-3.1-8b")


def test_names_are_sorted() -> None:
    assert list_models() == sorted(set(list_models()))


def test_paths(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    assert load_model(str(file)) == load_model(str(tmp_path))
    assert load_model(str(file)).name == tmp_path.name


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[1]", "must hold an object")])
def test_files_that_hold_no_config(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "model.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"model.json: {message}"):
        load_model(str(file))


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_model(str(tmp_path / "nowhere.json"))
