"""Which family a config belongs to, and the config's own flags on top of the family's defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lts_bench.specs.families import FAMILIES, REFUSED, SIGNATURES, SIZES, SYNONYMS, Family, Norms
from lts_bench.specs.fields import Fields


def normalised(name: str) -> str:
    """A model type or architecture as the tables spell it: ``Glm4MoeForCausalLM`` and ``glm4_moe`` are ``glm4moe``."""
    word = re.sub(r"\s*\(.*$", "", name)
    word = re.sub(r"(Model)?(ForCausalLM|ForConditionalGeneration|LMHeadModel)$", "", word)
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _names(fields: Fields) -> Iterable[str]:
    for config in (fields.config, fields.top):
        architectures: Any = config.get("architectures")
        first = architectures[:1] if isinstance(architectures, list) else []
        yield from (str(name) for name in (*first, config.get("model_type")) if name)


def family_name(fields: Fields) -> str:
    """The family that a config names or that its keys give away; ``llama`` with a warning otherwise."""
    names = [normalised(name) for name in _names(fields)]
    for name in names:
        if name in REFUSED:
            fields.fail(f"{REFUSED[name]} are not supported", "model_type", fields.find("model_type")[1])
        if SYNONYMS.get(name, name) in FAMILIES:
            return SYNONYMS.get(name, name)
    for key, name in SIGNATURES.items():
        if fields.raw(key) is not None:
            return name
    shown = fields.raw("model_type") or fields.top.get("model_type")
    fields.warn(f"{f'model_type {shown!r} is unknown' if shown else 'no model_type'}: read like Llama")
    return "llama"


def _bias_overrides(fields: Fields, family: Family) -> Family:
    everywhere, attention, ffn = fields.flag("all_bias"), fields.flag("attention_bias"), fields.flag("ffn_bias")
    if everywhere is not None:
        family = replace(family, bias="all" if everywhere else "none", ffn_bias=everywhere)
    if attention is not None:
        family = replace(family, bias=family.flagged_bias if attention else "none")
    return family if ffn is None else replace(family, ffn_bias=ffn)


def _norm_overrides(fields: Fields, family: Family, name: str) -> Family:
    if family.qk_norm == "flag" or fields.flag("use_qk_norm") is False:
        kind: Norms = "width" if fields.raw("qk_norm_type") == "per_layer" else "head"
        family = replace(family, qk_norm=kind if fields.flag("use_qk_norm") else "none")
    if name == "falcon" and fields.flag("parallel_attn") and not fields.flag("new_decoder_architecture"):
        family = replace(family, norms=1)
    return family


def family_of(fields: Fields) -> tuple[str, Family]:
    """The family's name and its defaults with the config's own flags applied."""
    name = family_name(fields)
    fields.defaults = SIZES.get(name, {})
    family = _norm_overrides(fields, _bias_overrides(fields, FAMILIES[name]), name)
    tied, gated = fields.flag("tied"), fields.flag("gated")
    router = fields.flag("router_bias") or fields.raw("topk_method") == "noaux_tc"
    return name, replace(
        family,
        tied=family.tied if tied is None else tied,
        gated=family.gated if gated is None else gated,
        router_bias=family.router_bias or router,
    )
