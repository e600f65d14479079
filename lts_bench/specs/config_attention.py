"""Attention of a config: heads, latent ranks, windows, and which layers have a linear mixer instead."""

from __future__ import annotations

from lts_bench.specs.families import Family
from lts_bench.specs.fields import Fields
from lts_bench.specs.layers import Attention, LatentAttention

WINDOWED = ("sliding_attention", "chunked_attention")
FULL = ("full_attention", "attention")
LINEAR = ("linear_attention", "mamba")


def head_dim(fields: Fields) -> int:
    """Features of one head: the config's own, else hidden size over heads."""
    hidden, heads, given = fields.need("hidden"), fields.need("heads"), fields.integer("head_dim")
    if given is None and hidden % heads:
        names = f"{fields.find('hidden')[0]}={hidden} and {fields.find('heads')[0]}={heads}"
        fields.fail(f"is missing and {names} do not divide", "head_dim")
    return given or hidden // heads


def kv_heads(fields: Fields) -> int:
    """Key-value heads; multi-query flags of older families count before the head count."""
    heads, given = fields.need("heads"), fields.integer("kv_heads")
    if fields.flag("multi_query_attention") is False:
        return heads
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1
    if given and heads % given:
        fields.fail(f"must divide {fields.find('heads')[0]}={heads}", fields.find("kv_heads")[0], given)
    return given or heads


def attention(
    fields: Fields, family: Family, window: int | None = None, groups: int | None = None, holds_kv: bool = True
) -> Attention:
    """Softmax attention with ``groups`` key-value heads, those of the config by default."""
    heads, size = fields.need("heads"), head_dim(fields)
    groups = groups or kv_heads(fields)
    norms = {"head": 2 * size, "width": (heads + groups) * size}.get(family.qk_norm, 0)
    return Attention(
        heads,
        groups,
        size,
        window=window,
        qkv_bias=family.bias != "none",
        out_bias=family.bias == "all",
        gated=family.gated_attention,
        vectors=norms + (heads if family.sinks else 0),
        holds_kv=holds_kv,
        joint_norm=family.qk_norm == "width",
    )


def latent_attention(fields: Fields) -> LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434)."""
    return LatentAttention(
        fields.need("heads"),
        fields.integer("q_rank"),
        fields.need("kv_rank"),
        fields.need("qk_nope_head_dim"),
        fields.need("qk_rope_head_dim"),
        fields.need("v_head_dim"),
    )


def _window_size(fields: Fields, family: Family) -> int | None:
    key, value = fields.find("window")
    used = fields.flag("use_sliding_window")
    if used is False or (used is None and not family.windowed and fields.raw("layer_types") is None):
        return None
    if value is None or (isinstance(value, int | float) and value <= 0):
        return None
    if key == "attention_chunk_size":
        fields.warn("chunked attention is read as a sliding window of the chunk's size")
    return fields.integer("window")


def _window_pattern(fields: Fields, family: Family, layers: int) -> list[bool]:
    pattern = fields.raw("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return [pattern[i % len(pattern)] == "L" for i in range(layers)]
    rotary = fields.per_layer("no_rope_layers", layers) if fields.raw("no_rope_layers") else None
    if rotary is not None:
        return [bool(each) for each in rotary]
    period = fields.integer("sliding_window_pattern") or family.window_period
    first = (fields.integer("max_window_layers", 0) or 0) if not period else 0
    return [i >= first if period is None else (i + 1) % period != 0 for i in range(layers)]


def layer_types(fields: Fields, layers: int) -> list[str] | None:
    """The config's own list of mixers, checked."""
    types = fields.per_layer("layer_types", layers)
    legal = (*FULL, *WINDOWED, *LINEAR)
    for each in types or ():
        if each not in legal:
            fields.fail("is not supported", "layer_types", each, legal)
    return types


def windows(fields: Fields, family: Family, layers: int) -> list[int | None]:
    """The window of every layer, None for full attention."""
    size, types = _window_size(fields, family), layer_types(fields, layers)
    if types is None:
        return [size if each else None for each in _window_pattern(fields, family, layers)]
    if size is None and any(each in WINDOWED for each in types):
        fields.fail("is missing although layer_types has windowed layers", "sliding_window")
    return [size if each in WINDOWED else None for each in types]


def linear_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have a linear mixer instead of softmax attention."""
    types = layer_types(fields, layers)
    if types is not None:
        return [each in LINEAR for each in types]
    kinds = fields.per_layer("attn_type_list", layers)
    if kinds is not None:
        return [each == 0 for each in kinds]
    interval, period = fields.integer("full_attention_interval"), fields.integer("attn_layer_period")
    if interval:
        return [(i + 1) % interval != 0 for i in range(layers)]
    if period:
        offset = fields.integer("attn_layer_offset", 0) or 0
        return [i % period != offset for i in range(layers)]
    return [False] * layers
