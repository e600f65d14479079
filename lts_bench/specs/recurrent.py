"""Linear mixers of a config: gated delta rule, lightning attention, Mamba and Mamba-2."""

from __future__ import annotations

from math import gcd

from lts_bench.specs.dtypes import DTYPES, base_dtype
from lts_bench.specs.families import Family
from lts_bench.specs.fields import Fields
from lts_bench.specs.layers import LinearMixer


def _state_dtype(fields: Fields) -> str:
    key, value = fields.find("state_dtype")
    if value in (None, "auto"):
        return base_dtype(fields)
    if value not in DTYPES:
        fields.fail("is not a dtype", key, value, sorted(DTYPES))
    return DTYPES[value]


def _mixer(
    fields: Fields, heads: int, in_features: int, out_features: int, recurrent: int, conv: int, vectors: int
) -> LinearMixer:
    return LinearMixer(
        gcd(heads, in_features, out_features),
        in_features,
        out_features,
        recurrent + conv,
        vectors,
        _state_dtype(fields),
        conv,
    )


def gated_delta(fields: Fields) -> LinearMixer:
    """Gated delta rule (Qwen3-Next): projections to q, k, v, gate, beta and decay; a short convolution on q, k, v."""
    key_heads, value_heads = fields.need("linear_num_key_heads"), fields.need("linear_num_value_heads")
    key_dim, value_dim = fields.need("linear_key_head_dim"), fields.need("linear_value_head_dim")
    kernel = fields.need("linear_conv_kernel_dim")
    keys, values = key_heads * key_dim, value_heads * value_dim
    channels = 2 * keys + values
    return _mixer(
        fields,
        key_heads,
        channels + values + 2 * value_heads,
        values,
        recurrent=value_heads * key_dim * value_dim,
        conv=channels * (kernel - 1),
        vectors=channels * kernel + 2 * value_heads + value_dim,
    )


def lightning(fields: Fields, head_dim: int) -> LinearMixer:
    """Lightning attention (MiniMax-01, arXiv 2501.08313): q, k, v and an output gate with its norm."""
    heads = fields.need("heads")
    width = heads * head_dim
    return _mixer(fields, heads, 4 * width, width, recurrent=width * head_dim, conv=0, vectors=width)


def mamba2(fields: Fields) -> LinearMixer:
    """Mamba-2 (arXiv 2405.21060): projections to gate, x, B, C and the step size of every head."""
    heads, size, groups = fields.need("mamba_heads"), fields.need("mamba_head_dim"), fields.need("mamba_groups")
    state, kernel = fields.need("mamba_state"), fields.need("mamba_kernel")
    inner = heads * size
    channels = inner + 2 * groups * state
    bias = 0 if fields.flag("use_conv_bias") is False or fields.flag("mamba_conv_bias") is False else channels
    return _mixer(
        fields,
        heads,
        inner + channels + heads,
        inner,
        recurrent=inner * state,
        conv=channels * (kernel - 1),
        vectors=channels * kernel + bias + 3 * heads + inner,
    )


def mamba1(fields: Fields) -> LinearMixer:
    """Mamba (arXiv 2312.00752) with Jamba's inner norms.

    The two small inner projections, to B, C and the step size and back, count as further outputs of the input
    projection: the same weights and work, split over channels as they are.
    """
    hidden, state, kernel = fields.need("hidden"), fields.need("mamba_state"), fields.need("mamba_kernel")
    inner = (fields.integer("mamba_expand") or 2) * hidden
    rank = fields.integer("mamba_dt_rank") or -(-hidden // 16)
    small, rest = divmod(inner * (2 * rank + 2 * state), hidden)
    bias = 0 if fields.flag("mamba_conv_bias") is False else inner
    return _mixer(
        fields,
        inner,
        2 * inner + small,
        inner,
        recurrent=inner * state,
        conv=inner * (kernel - 1),
        vectors=rest + inner * (kernel + state + 2) + bias + rank + 2 * state,
    )


def linear_mixer(fields: Fields, family: Family) -> LinearMixer:
    """The linear mixer that the config's keys describe."""
    if fields.raw("linear_num_value_heads") is not None:
        return gated_delta(fields)
    if family.lightning:
        return lightning(fields, fields.integer("head_dim") or fields.need("hidden") // fields.need("heads"))
    if fields.find("mamba_heads")[1] is not None:
        return mamba2(fields)
    if fields.find("mamba_state")[1] is None:
        fields.fail("has linear layers of a kind that is not supported", "layer_types")
    return mamba1(fields)
