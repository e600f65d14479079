"""Which weight groups a quantisation config leaves out, from its patterns of module names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from lts_bench.specs.fields import Fields
from lts_bench.specs.formats import WeightGroup
from lts_bench.specs.layers import Attention, DenseFfn, LatentAttention, Layer, LinearMixer, MoeFfn

_EXPERT_PARENTS = ("mlp", "block_sparse_moe", "feed_forward", "mixer")
_MODULES: dict[str, tuple[tuple[str, ...], ...]] = {
    "softmax": tuple(
        (f"self_attn.{name}_proj", f"attention.{name}_proj", f"mixer.{name}_proj") for name in ("q", "k", "v", "o")
    ),
    "latent": tuple(
        (f"self_attn.{name}",) for name in ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
    ),
    "linear": (
        ("linear_attn.in_proj_qkvz", "mamba.in_proj", "mixer.in_proj", "self_attn.qkv_proj"),
        ("linear_attn.out_proj", "mamba.out_proj", "mixer.out_proj", "self_attn.out_proj"),
    ),
    "ffn": tuple((f"mlp.{name}_proj", f"feed_forward.{name}_proj", f"mixer.{name}_proj") for name in ("up", "down")),
    "experts": (
        tuple(f"{parent}.experts.0.up_proj" for parent in _EXPERT_PARENTS),
        tuple(f"{parent}.experts.0.down_proj" for parent in _EXPERT_PARENTS),
    ),
    "shared": (("mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj", "feed_forward.shared_expert.up_proj"),),
}
"""Modules of a group in a layer; each with its names in different families."""


def _parts(layer: Layer) -> Iterator[tuple[WeightGroup, str]]:
    mixers = {Attention: "softmax", LatentAttention: "latent", LinearMixer: "linear"}
    if layer.mixer is not None:
        yield "attention", mixers[type(layer.mixer)]
    if isinstance(layer.ffn, DenseFfn):
        yield "ffn", "ffn"
    if isinstance(layer.ffn, MoeFfn):
        yield "experts", "experts"
        if layer.ffn.shared_width:
            yield "shared", "shared"


def _compiled(patterns: list[str]) -> re.Pattern[str]:
    """One expression for all patterns: a whole name, the start of one at a dot, or a part between dots."""
    bodies = []
    for pattern in patterns:
        if pattern.startswith("re:"):
            bodies.append(pattern.removeprefix("re:"))
            continue
        name = re.escape(pattern.replace("language_model.", "").rstrip("."))
        bodies.append(rf"(?:.*\.)?{name.replace(chr(92) + '*', '.*').replace(chr(92) + '?', '.')}(?:\..*)?")
    return re.compile("|".join(f"(?:{body})" for body in bodies))


def excluded_groups(fields: Fields, layers: tuple[Layer, ...], patterns: list[str]) -> tuple[WeightGroup, ...]:
    """The groups most of whose modules match a pattern; a group that is split gets a warning."""
    if not patterns:
        return ()
    try:
        expression = _compiled(patterns)
    except re.error as error:
        fields.fail(f"has a pattern that is not a regular expression ({error})", "quantization_config")
    matches: dict[WeightGroup, list[bool]] = defaultdict(list)
    for index, layer in enumerate(layers):
        for group, part in _parts(layer):
            for names in _MODULES[part]:
                paths = (f"model.layers.{index}.{name}" for name in names)
                matches[group].append(any(expression.fullmatch(path) for path in paths))
    for group, found in matches.items():
        if any(found) and not all(found):
            state = "unquantised" if 2 * sum(found) >= len(found) else "quantised"
            fields.warn(f"quantization_config excludes {sum(found)} of {len(found)} {group} modules: all {state}")
    return tuple(group for group, found in matches.items() if 2 * sum(found) >= len(found))
