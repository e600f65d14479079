"""Reading config.json: the names of every field, where the language model is nested, checked values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lts_bench.specs.failure import InputError

ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model", "hidden_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "n_kv_heads",
        "n_head_kv",
        "attn_config.kv_n_heads",
        "multi_query_group_num",
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim", "d_kv", "size_per_head"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "context": (
        "max_position_embeddings",
        "n_positions",
        "seq_length",
        "max_seq_len",
        "max_sequence_length",
        "model_max_length",
        "n_ctx",
    ),
    "intermediate": (
        "intermediate_size",
        "n_inner",
        "ffn_hidden_size",
        "ffn_config.ffn_hidden_size",
        "d_ff",
        "ffn_dim",
        "ffn_embed_dim",
    ),
    "dense_width": ("intermediate_size_mlp",),
    "experts": (
        "num_experts",
        "n_routed_experts",
        "num_local_experts",
        "moe_num_experts",
        "num_routed_experts",
        "ffn_config.moe_num_experts",
    ),
    "top_k": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_topk",
        "moe_top_k",
        "moe_k",
        "experts_per_token",
        "ffn_config.moe_top_k",
        "num_selected_experts",
    ),
    "expert_width": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_width": (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ),
    "idle_experts": ("zero_expert_num",),
    "first_dense": ("first_k_dense_replace", "moe_layer_start_index"),
    "window": ("sliding_window", "sliding_window_size", "attention_chunk_size"),
    "q_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "draft_layers": ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "num_mtp_layers"),
    "tied": ("tie_word_embeddings", "tie_embeddings"),
    "gated": ("is_gated_act",),
    "attention_bias": ("attention_bias", "qkv_bias", "add_qkv_bias", "use_qkv_bias"),
    "all_bias": ("use_bias", "bias", "add_bias_linear"),
    "ffn_bias": ("mlp_bias",),
    "router_bias": ("use_routing_bias", "moe_router_enable_expert_bias"),
    "mamba_heads": ("mamba_num_heads", "mamba_n_heads"),
    "mamba_head_dim": ("mamba_head_dim", "mamba_d_head"),
    "mamba_groups": ("n_groups", "mamba_n_groups"),
    "mamba_state": ("ssm_state_size", "mamba_d_state"),
    "mamba_kernel": ("conv_kernel", "mamba_d_conv"),
    "mamba_expand": ("mamba_expand", "expand"),
    "state_dtype": ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
    "dtype": ("dtype", "torch_dtype"),
}
"""Canonical field → keys of config.json; the first that is present and not null counts."""

NESTING = ("text_config", "llm_config", "language_config", "thinker_config.text_config")
INHERITED = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config")


def lookup(config: dict[str, Any], path: str) -> Any:
    """The value at a dotted path; null and absent are both None."""
    value: Any = config
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's part of a multimodal config, with what it inherits from the top level."""
    for path in NESTING:
        nested = lookup(config, path)
        if isinstance(nested, dict):
            inherited = {key: config[key] for key in INHERITED if config.get(key) is not None}
            return inherited | {key: value for key, value in nested.items() if value is not None}
    return config


class Fields:
    """A config's language model by canonical names; collects warnings, refuses values of the wrong kind."""

    def __init__(self, config: dict[str, Any], source: str) -> None:
        self.top, self.config, self.source = config, text_part(config), source
        self.warnings: list[str] = []
        self.defaults: dict[str, int] = {}

    def raw(self, path: str) -> Any:
        """The value of one key, by its own name."""
        return lookup(self.config, path)

    def find(self, name: str) -> tuple[str, Any]:
        """The key that holds a canonical field and its value; the first name and None where absent."""
        names = ALIASES.get(name, (name,))
        found = [(key, self.raw(key)) for key in names if self.raw(key) is not None]
        if not found:
            return names[0], None
        if len({repr(value) for _, value in found}) > 1 and name != "context":
            self.warn(f"{' and '.join(key for key, _ in found)} disagree; {found[0][0]}={found[0][1]!r} is used")
        return found[0]

    def integer(self, name: str, minimum: int = 1) -> int | None:
        """A whole number, the family's default with a warning, or None."""
        key, value = self.find(name)
        if value is None:
            if name in self.defaults:
                self.warn(f"no {key}: the family's {self.defaults[name]} is assumed")
            return self.defaults.get(name)
        whole = (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
        if not whole or value < minimum:
            self.fail(f"must be a whole number ≥ {minimum}", key, value)
        return int(value)

    def need(self, name: str) -> int:
        """A whole number that must be there."""
        value = self.integer(name)
        if value is None:
            nested = f" at the top level or in {', '.join(NESTING)}" if self.config is self.top else ""
            self.fail(f"is missing; keys tried: {', '.join(ALIASES.get(name, (name,)))}{nested}", self.find(name)[0])
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean or None."""
        key, value = self.find(name)
        if value is not None and not isinstance(value, bool):
            self.fail("must be true or false", key, value)
        return value

    def per_layer(self, key: str, layers: int) -> list[Any] | None:
        """A list with one entry a layer, or None."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple | str):
            self.fail("must be a list with one entry a layer", key, value)
        if len(value) != layers:
            self.fail(f"has {len(value)} entries for {layers} layers (num_hidden_layers)", key)
        return list(value)

    def warn(self, message: str) -> None:
        """Remember an assumption, once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def fail(self, message: str, field: str, value: Any = None, legal: Sequence[Any] = ()) -> NoReturn:
        """Refuse the config."""
        raise InputError(message, source=self.source, field=field, value=value, legal=legal)
