"""Feed-forward blocks of a config: dense ones, experts, and which layer has which."""

from __future__ import annotations

from lts_bench.specs.families import Family
from lts_bench.specs.fields import Fields
from lts_bench.specs.layers import DenseFfn, MoeFfn

PERIODS = {
    "decoder_sparse_step": -1,
    "expert_layer_period": 0,
    "interleave_moe_layer_step": -1,
    "moe_layer_freq": 0,
    "moe_layer_frequency": -1,
    "moe_layer_interval": -1,
}
"""Keys that say every how many layers has experts → the first of them, counted from the period."""


def experts_in(fields: Fields) -> int:
    """Routed experts, 1 for a dense model; a key that speaks of experts must be understood."""
    known = fields.integer("experts", 0)
    if known is None:
        for key, value in fields.config.items():
            counts = key.startswith(("num_", "n_")) and key.endswith("experts") and "shared" not in key
            if counts and isinstance(value, int) and value > 1:
                fields.fail("counts experts in a way that is not understood", key, value)
    return known or 1


def moe_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts."""
    if experts_in(fields) == 1:
        return [False] * layers
    if isinstance(fields.raw("moe_layer_freq"), list):
        return [bool(each) for each in fields.per_layer("moe_layer_freq", layers) or ()]
    named = fields.raw("moe_layers")
    first, dense = fields.integer("first_dense", 0) or 0, fields.raw("mlp_only_layers") or ()
    last = fields.integer("moe_layer_end_index", -1)
    last = layers - 1 if last is None or last < 0 else last
    if isinstance(named, list) and named:
        return [i in named for i in range(layers)]
    return [first <= i <= last and i not in dense and _on_period(fields, i) for i in range(layers)]


def _on_period(fields: Fields, index: int) -> bool:
    for key, phase in PERIODS.items():
        period = fields.integer(key, 0)
        if period:
            start = phase if key != "expert_layer_period" else fields.integer("expert_layer_offset", 0) or 0
            if index % period != start % period:
                return False
    return True


def dense_ffn(fields: Fields, family: Family) -> DenseFfn:
    """A dense feed-forward block."""
    width = fields.integer("dense_width") or fields.integer("intermediate")
    if width is None and family.ffn_multiple:
        width = family.ffn_multiple * fields.need("hidden")
    return DenseFfn(width or fields.need("intermediate"), family.gated, family.ffn_bias)


def moe_ffn(fields: Fields, family: Family) -> MoeFfn:
    """Experts with their router and what runs beside them."""
    experts, hidden, top_k = experts_in(fields), fields.need("hidden"), fields.integer("top_k") or family.top_k
    if top_k is None:
        fields.fail(f"is missing for {experts} experts", fields.find("top_k")[0])
    if top_k > experts:
        fields.fail(f"must not exceed the {experts} experts", fields.find("top_k")[0], top_k)
    width = fields.integer("expert_width") or fields.need("intermediate")
    idle = fields.integer("idle_experts", 0) or 0
    shared = _shared_width(fields, family, width)
    gated = family.gated if family.experts_gated is None else family.experts_gated
    return MoeFfn(
        experts,
        top_k,
        width,
        gated=gated,
        bias=family.expert_bias,
        shared_width=shared,
        shared_gated=family.gated,
        idle_experts=idle,
        vectors=(experts + idle if family.router_bias else 0) + (hidden if family.shared_gate and shared else 0),
    )


def _shared_width(fields: Fields, family: Family, width: int) -> int:
    given, count = fields.integer("shared_width", 0), fields.integer("shared_experts", 0)
    if given is not None:
        return given
    if family.residual_ffn and fields.flag("use_residual"):
        return fields.need("hidden")
    return (family.shared_experts if count is None else count) * width
