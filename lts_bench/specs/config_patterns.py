"""Families whose layers are not one mixer and one feed-forward block each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lts_bench.specs.config_attention import attention, latent_attention
from lts_bench.specs.config_experts import dense_ffn, experts_in, moe_ffn
from lts_bench.specs.config_layers import norm_size, usual_layers
from lts_bench.specs.families import Family
from lts_bench.specs.fields import Fields
from lts_bench.specs.layers import Attention, DenseFfn, Layer, MoeFfn
from lts_bench.specs.recurrent import linear_mixer


def hybrid_pattern(fields: Fields, family: Family) -> list[Layer]:
    """Nemotron-H: one letter a layer, each a mixer or a feed-forward block alone."""
    letters = fields.per_layer("hybrid_override_pattern", fields.need("layers")) or []
    makers: dict[str, Callable[[], Layer]] = {
        "M": lambda: Layer(linear_mixer(fields, family), None, norm),
        "*": lambda: Layer(attention(fields, family), None, norm),
        "-": lambda: Layer(None, dense_ffn(fields, family), norm),
        "E": lambda: Layer(None, moe_ffn(fields, family), norm),
    }
    norm = norm_size(fields, family)
    for letter in letters:
        if letter not in makers:
            fields.fail("has a letter that is not supported", "hybrid_override_pattern", letter, tuple(makers))
    return [makers[letter]() for letter in letters]


def _block_part(fields: Fields, index: int, part: str, key: str) -> Any:
    path = f"block_configs[{index}].{part}"
    config = fields.raw("block_configs")[index].get(part) or {}
    if config.get("replace_with_linear"):
        fields.fail("is not supported", f"{path}.replace_with_linear", True)
    if config.get("no_op") or config.get(key) is None:
        return None
    return config[key]


def _block_attention(fields: Fields, family: Family, index: int) -> Attention | None:
    """Attention of a searched block: ``n_heads_in_group`` query heads share one key-value head."""
    group, heads = _block_part(fields, index, "attention", "n_heads_in_group"), fields.need("heads")
    if group is None:
        return None
    if not isinstance(group, int) or group < 1 or heads % group:
        where = f"block_configs[{index}].attention.n_heads_in_group"
        fields.fail(f"must divide {fields.find('heads')[0]}={heads}", where, group)
    return attention(fields, family, groups=heads // group)


def _block_ffn(fields: Fields, family: Family, index: int) -> DenseFfn | None:
    """Feed-forward width of a searched block: 2/3 of the multiple, rounded up to 256 (DeciLM)."""
    multiple = _block_part(fields, index, "ffn", "ffn_mult")
    if multiple is None:
        return None
    width = 256 * math.ceil(int(2 * multiple * fields.need("hidden") / 3) / 256)
    return DenseFfn(width, family.gated, family.ffn_bias)


def searched_blocks(fields: Fields, family: Family) -> list[Layer]:
    """Llama-Nemotron: every layer has its own attention and feed-forward part, or none; each part has its norm."""
    norm = norm_size(fields, family)
    layers = []
    for index in range(len(fields.raw("block_configs"))):
        mixer, ffn = _block_attention(fields, family, index), _block_ffn(fields, family, index)
        if mixer or ffn:
            layers.append(Layer(mixer, ffn, vectors=norm * (bool(mixer) + bool(ffn))))
    return layers


def shortcut_experts(fields: Fields, family: Family) -> list[Layer]:
    """LongCat-Flash: a layer is two latent attentions with dense blocks and, beside the first, the experts."""
    fields.warn("the experts' overlap with dense blocks (shortcut connection) is not modelled: they run one by one")
    norm = norm_size(fields, family)
    dense = Layer(latent_attention(fields), dense_ffn(fields, family), vectors=2 * norm)
    experts = Layer(None, moe_ffn(fields, family))
    return [dense, experts, dense] * fields.need("layers")


def _sparse(count: int, sparse: int) -> list[bool]:
    step = count // sparse if sparse else 0
    return [bool(step) and (i % step == 1 or step == 1) for i in range(count)]


def encoder_decoder(fields: Fields, family: Family) -> list[Layer]:
    """Switch Transformers (arXiv 2101.03961): encoder layers, then decoder layers with their cross-attention."""
    fields.warn("encoder–decoder: every token passes encoder and decoder; cross-attention is a further attention layer")
    norm, encoder = norm_size(fields, family), fields.need("layers")
    decoder = fields.integer("num_decoder_layers") or encoder
    mixer, dense = attention(fields, family), dense_ffn(fields, family)
    moe = moe_ffn(fields, replace(family, router_bias=False))
    layers = [
        Layer(mixer, moe if sparse else dense, vectors=2 * norm)
        for sparse in _sparse(encoder, fields.integer("num_sparse_encoder_layers", 0) or 0)
    ]
    for sparse in _sparse(decoder, fields.integer("num_sparse_decoder_layers", 0) or 0):
        layers += [
            Layer(mixer, None, vectors=norm),
            Layer(mixer, moe if sparse else dense, vectors=2 * norm),
        ]
    return layers


PATTERNS: dict[str, Callable[[Fields, Family], list[Layer]]] = {
    "decilm": searched_blocks,
    "longcatflash": shortcut_experts,
    "nemotronh": hybrid_pattern,
    "nemotronnas": searched_blocks,
    "switchtransformers": encoder_decoder,
}


def read_layers(fields: Fields, name: str, family: Family) -> tuple[Layer, ...]:
    """The layers of a config in order."""
    layers = tuple(PATTERNS.get(name, usual_layers)(fields, family))
    if experts_in(fields) > 1 and not any(isinstance(layer.ffn, MoeFfn) for layer in layers):
        fields.fail("names experts but no layer has them", fields.find("experts")[0], experts_in(fields))
    return layers
