"""The usual layers of a config: one mixer and one feed-forward block each."""

from __future__ import annotations

from lts_bench.specs.config_attention import attention, latent_attention, linear_layers, windows
from lts_bench.specs.config_experts import dense_ffn, moe_ffn, moe_layers
from lts_bench.specs.families import Family
from lts_bench.specs.fields import Fields
from lts_bench.specs.layers import Ffn, Layer, Mixer, MoeFfn
from lts_bench.specs.recurrent import linear_mixer


def norm_size(fields: Fields, family: Family) -> int:
    """Parameters of one norm."""
    return 0 if family.norm_free else fields.need("hidden") * (2 if family.norm_bias else 1)


def softmax_mixer(fields: Fields, family: Family, window: int | None, holds_kv: bool) -> Mixer:
    """Latent attention where the config has a latent rank, the usual attention otherwise."""
    if fields.integer("kv_rank") is not None:
        return latent_attention(fields)
    return attention(fields, family, window, holds_kv=holds_kv)


def usual_layers(fields: Fields, family: Family) -> list[Layer]:
    """Layers that each have one mixer and one feed-forward block."""
    count = fields.need("layers")
    shared = fields.integer("num_kv_shared_layers", 0) or 0
    linear, experts, spans = linear_layers(fields, count), moe_layers(fields, count), windows(fields, family, count)
    norm = norm_size(fields, family)
    layers = []
    for i in range(count):
        mixer: Mixer = (
            linear_mixer(fields, family) if linear[i] else softmax_mixer(fields, family, spans[i], i < count - shared)
        )
        ffn: Ffn = moe_ffn(fields, family) if experts[i] else dense_ffn(fields, family)
        extra = 1 if isinstance(ffn, MoeFfn) and family.residual_ffn else 0
        layers.append(Layer(mixer, ffn, vectors=(family.norms + extra) * norm))
    return layers
