"""What model families leave out of config.json: biases, norms, tying and other defaults, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Biases = Literal["none", "qkv", "all"]
Norms = Literal["none", "flag", "head", "width"]


@dataclass(frozen=True, slots=True)
class Family:
    """Defaults of a model family; keys of the config override them.

    Attributes:
        tied: embedding and head share one matrix.
        gated: feed-forward blocks have a gate; ``experts_gated`` differs only where given.
        bias: biases of the attention projections; ``flagged_bias`` are those that ``attention_bias: true`` adds.
        ffn_bias, expert_bias, head_bias: biases of these matrices.
        norms: norms a layer; ``norm_bias`` where they have a bias; ``norm_free`` where they have no parameters.
        qk_norm: norms of queries and keys: a weight per head feature, per projected feature, or as a flag says.
        positions: rows of the learned position table beyond the context; None without a table.
        embed_norm: a norm follows the embedding.
        ffn_multiple: intermediate over hidden size where the config gives no intermediate size.
        windowed: ``sliding_window`` counts without ``use_sliding_window``.
        window_period: every n-th layer attends fully, the others through the window.
        sinks: a learned sink for every head.
        gated_attention: the query projection also makes an output gate.
        router_bias, shared_gate: an additional bias, a gate of the shared expert.
        shared_experts, top_k: where the config does not say.
        residual_ffn: a dense block of hidden width runs beside the experts.
        lightning: linear layers are lightning attention.
    """

    tied: bool = False
    gated: bool = True
    experts_gated: bool | None = None
    bias: Biases = "none"
    flagged_bias: Biases = "all"
    ffn_bias: bool = False
    expert_bias: bool = False
    head_bias: bool = False
    norms: int = 2
    norm_bias: bool = False
    norm_free: bool = False
    qk_norm: Norms = "flag"
    positions: int | None = None
    embed_norm: bool = False
    ffn_multiple: int | None = None
    windowed: bool = True
    window_period: int | None = None
    sinks: bool = False
    gated_attention: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    shared_experts: int = 0
    top_k: int | None = None
    residual_ffn: bool = False
    lightning: bool = False


LLAMA = Family()
QWEN2 = Family(bias="qkv", flagged_bias="qkv", windowed=False)
QWEN3 = Family(qk_norm="head", windowed=False)
GPT2 = Family(
    tied=True, gated=False, bias="all", ffn_bias=True, norm_bias=True, positions=0, ffn_multiple=4, qk_norm="none"
)
NEOX = replace(GPT2, tied=False, positions=None)
GEMMA = Family(tied=True)
DEEPSEEK = Family(router_bias=True)

FAMILIES: dict[str, Family] = {
    "arctic": Family(residual_ffn=True),
    "baichuan": LLAMA,
    "bloom": replace(GPT2, positions=None, embed_norm=True),
    "chatglm": Family(bias="qkv", flagged_bias="qkv"),
    "codegen": replace(NEOX, bias="none", norms=1, head_bias=True),
    "cohere": Family(tied=True, norms=1),
    "cohere2": Family(tied=True, norms=1, window_period=4),
    "dbrx": LLAMA,
    "decilm": LLAMA,
    "deepseek": LLAMA,
    "deepseekv2": LLAMA,
    "deepseekv3": DEEPSEEK,
    "deepseekv32": DEEPSEEK,
    "dots1": Family(qk_norm="head", router_bias=True),
    "ernie45": LLAMA,
    "ernie45moe": Family(router_bias=True),
    "exaone": LLAMA,
    "falcon": Family(tied=True, gated=False, norm_bias=True, ffn_multiple=4),
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, norms=4, window_period=2),
    "gemma3": replace(GEMMA, norms=4, qk_norm="head", window_period=6),
    "gemma3n": replace(GEMMA, norms=4, qk_norm="head", window_period=5),
    "glam": Family(tied=True, experts_gated=False, norms=2),
    "glm": Family(bias="qkv", flagged_bias="qkv"),
    "glm4": Family(bias="qkv", flagged_bias="qkv", norms=4),
    "glm4moe": Family(flagged_bias="qkv", router_bias=True),
    "glm4moelite": DEEPSEEK,
    "gpt2": GPT2,
    "gptbigcode": GPT2,
    "gptj": replace(NEOX, bias="none", norms=1, head_bias=True),
    "gptneox": NEOX,
    "gptoss": Family(bias="all", expert_bias=True, router_bias=True, sinks=True, window_period=2),
    "granite": LLAMA,
    "granitemoe": LLAMA,
    "grok1": Family(tied=True, norms=4),
    "internlm2": LLAMA,
    "jamba": Family(top_k=2),
    "llama": LLAMA,
    "llama4": Family(qk_norm="none", shared_experts=1, window_period=4),
    "longcatflash": DEEPSEEK,
    "metaseq": replace(GPT2, positions=2),
    "minimax": Family(lightning=True),
    "minimaxm2": Family(qk_norm="width", router_bias=True),
    "ministral": LLAMA,
    "mistral": LLAMA,
    "mistral3": LLAMA,
    "mixtral": LLAMA,
    "mpt": Family(tied=True, gated=False, ffn_multiple=4),
    "nemotron": Family(gated=False, norm_bias=True),
    "nemotronh": Family(gated=False, norms=1, router_bias=True),
    "nemotronnas": LLAMA,
    "olmo": Family(norm_free=True),
    "olmo2": Family(qk_norm="width"),
    "olmoe": Family(qk_norm="width"),
    "opt": replace(GPT2, positions=2),
    "palm": Family(tied=True, norms=1),
    "phi": replace(NEOX, norms=1, head_bias=True),
    "phi3": LLAMA,
    "qwen2": QWEN2,
    "qwen2moe": replace(QWEN2, shared_gate=True),
    "qwen3": QWEN3,
    "qwen3moe": QWEN3,
    "qwen3next": replace(QWEN3, gated_attention=True, shared_gate=True),
    "smollm3": LLAMA,
    "stablelm": Family(norm_bias=True, flagged_bias="qkv"),
    "starcoder2": Family(tied=True, gated=False, bias="all", ffn_bias=True, norm_bias=True),
    "switchtransformers": Family(tied=True, gated=False, top_k=1),
}
"""Family by model type, letters and digits only."""

SIZES: dict[str, dict[str, int]] = {
    "gemma": {"head_dim": 256, "vocab": 256000},
    "gemma2": {"head_dim": 256, "vocab": 256000},
    "gemma3": {"head_dim": 256, "vocab": 262208, "heads": 8, "kv_heads": 4},
}
"""Sizes that a family's published configs leave to the library's defaults (transformers)."""

SYNONYMS = {
    "aquila": "llama",
    "gemma3text": "gemma3",
    "gemma3ntext": "gemma3n",
    "gpt3": "gpt2",
    "grok": "grok1",
    "kimik2": "deepseekv3",
    "llama4text": "llama4",
    "minimaxm1": "minimax",
    "minimaxm25": "minimaxm2",
    "minimaxtext01": "minimax",
    "pixtral": "mistral",
    "qwen25vl": "qwen2",
    "qwen25vltext": "qwen2",
    "qwen2vl": "qwen2",
    "qwen3vl": "qwen3",
    "qwen3vlmoe": "qwen3moe",
    "qwen3vlmoetext": "qwen3moe",
    "qwen3vltext": "qwen3",
    "rwforcausallm": "falcon",
    "yi": "llama",
}

SIGNATURES = {
    "attn_layer_period": "jamba",
    "attn_type_list": "minimax",
    "block_configs": "nemotronnas",
    "ffn_embed_dim": "metaseq",
    "full_attention_interval": "qwen3next",
    "hybrid_override_pattern": "nemotronh",
    "interleave_moe_layer_step": "llama4",
    "multi_query_group_num": "chatglm",
    "zero_expert_num": "longcatflash",
}
"""Keys that only one family has, for configs without a known name."""

REFUSED = {
    "bart": "encoder–decoder models",
    "mamba": "pure state-space models",
    "mamba2": "pure state-space models",
    "mt5": "encoder–decoder models",
    "rwkv": "RWKV mixers",
    "t5": "encoder–decoder models",
    "whisper": "encoder–decoder models",
}
