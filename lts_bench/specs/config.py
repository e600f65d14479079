"""From a config.json, or the name of a built-in model, to a Model."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from lts_bench.specs.config_family import family_of
from lts_bench.specs.config_layers import norm_size
from lts_bench.specs.config_patterns import read_layers
from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.families import Family
from lts_bench.specs.fields import Fields
from lts_bench.specs.layers import Layer
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import read_precision

QUANTIZATION_FILE = "hf_quant_config.json"

UNMODELLED = {
    "altup_num_inputs": "alternating updates are not modelled",
    "hidden_size_per_layer_input": "embeddings of every layer are not modelled",
    "index_topk": "sparse attention is read as full attention, its indexer is not counted",
}
"""Keys of features that change cost a little → the warning."""

UNSUPPORTED = ("linear_attn_config", "is_encoder_decoder")
"""Keys of features that no layer here describes."""


def list_models() -> list[str]:
    """Names of the built-in models."""
    folder = resources.files("lts_bench.data").joinpath("models")
    return sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.endswith(".json"))


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg} in line {error.lineno}", source=source) from error
    if not isinstance(config, dict):
        raise InputError("must hold an object", source=source)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        return _parse(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", source=str(path)) from error


class ModelFiles(NamedTuple):
    """What a model is read from: ``model_from_config`` takes these.

    Attributes:
        config: the content of its config.json.
        name: the model's name.
        source: where the config is from, for messages.
        quantization: the content of hf_quant_config.json, None where there is none.
    """

    config: dict[str, Any]
    name: str
    source: str
    quantization: dict[str, Any] | None = None


def _read_path(path: Path) -> ModelFiles:
    file = path / "config.json" if path.is_dir() else path
    side = file.parent / QUANTIZATION_FILE
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return ModelFiles(_read(file), name, str(file), _read(side) if side.is_file() else None)


def read_model_files(ref: str) -> ModelFiles:
    """What describes a built-in model, by its name in any case, or what a config.json or its directory holds."""
    names = list_models()
    if ref.lower() in names:
        file = resources.files("lts_bench.data").joinpath("models", f"{ref.lower()}.json")
        return ModelFiles(_parse(file.read_text(encoding="utf-8"), file.name), ref.lower(), ref.lower())
    if Path(ref).exists() or "/" in ref or ref.endswith(".json"):
        return _read_path(Path(ref))
    message = f"is neither a built-in model nor a file{did_you_mean(ref.lower(), names)}"
    raise InputError(message, field="model", value=ref, legal=names)


def load_model(ref: str) -> Model:
    """A built-in model by its name in any case, or the model that a config.json or its directory describes."""
    return model_from_config(*read_model_files(ref))


def _outside(fields: Fields, family: Family, name: str) -> int:
    """Parameters outside layers, embedding and head."""
    norm, hidden = norm_size(fields, family), fields.need("hidden")
    total = norm * (2 if name == "switchtransformers" else 1)
    if family.positions is not None:
        total += (fields.need("context") + family.positions) * hidden
    return total + (norm if family.embed_norm else 0) + (fields.need("vocab") if family.head_bias else 0)


def _draft_parameters(fields: Fields, layers: tuple[Layer, ...], norm: int) -> int:
    """Multi-token prediction: a layer each, a projection of two streams and three norms (arXiv 2412.19437)."""
    count = 0 if fields.flag("use_mtp") is False else fields.integer("draft_layers", 0) or 0
    hidden = fields.need("hidden")
    return count * (layers[-1].parameters(hidden) + 2 * hidden * hidden + 3 * norm)


def _vision_parameters(fields: Fields) -> int:
    """Weights of a vision tower (ViT): attention and two feed-forward matrices a layer, and the patch embedding."""
    if fields.config is fields.top and fields.top.get("vision_config") is None:
        return 0
    vision = fields.top.get("vision_config") or {}
    depth, hidden = vision.get("num_hidden_layers") or vision.get("depth"), vision.get("hidden_size")
    width = vision.get("intermediate_size")
    if not (depth and hidden and width):
        fields.warn("no dimensions of a vision tower: its weights are not counted")
        return 0
    fields.warn("the vision tower is replicated on every device; its weights are an estimate")
    patch = vision.get("num_channels", 3) * (vision.get("patch_size") or 14) ** 2
    return int(depth * (4 * hidden * hidden + 2 * hidden * width) + patch * hidden)


def _check_features(fields: Fields, name: str) -> None:
    for key in UNSUPPORTED:
        if fields.raw(key) and not (key == "is_encoder_decoder" and name == "switchtransformers"):
            fields.fail("is not supported", key, fields.raw(key))
    for key, warning in UNMODELLED.items():
        if fields.raw(key):
            fields.warn(f"{key}: {warning}")
    for key, value in fields.config.items():
        shares = ("shar" in key and "kv" in key) or key in ("cla_share_factor", "use_cla")
        if shares and value and key != "num_kv_shared_layers":
            fields.warn(f"{key} is not understood: KV may be overestimated")


def model_from_config(
    config: dict[str, Any], name: str, source: str = "config.json", quantization: dict[str, Any] | None = None
) -> Model:
    """The model that a config describes; unknown keys are ignored and null means absent.

    Args:
        config: the content of a config.json.
        name: the model's name.
        source: where the config is from, for messages.
        quantization: the content of hf_quant_config.json.

    Raises:
        InputError: a field is missing, contradictory or names a feature that cannot be modelled.
    """
    fields = Fields(config, source)
    family_name, family = family_of(fields)
    _check_features(fields, family_name)
    hidden = fields.need("hidden")
    layers = read_layers(fields, family_name, family)
    return Model(
        name=name,
        hidden=hidden,
        vocab=fields.need("vocab"),
        layers=layers,
        tied=family.tied,
        vectors=_outside(fields, family, family_name),
        extra_parameters=_vision_parameters(fields),
        draft_parameters=_draft_parameters(fields, layers, norm_size(fields, family)),
        max_context=fields.integer("context"),
        precision=read_precision(fields, layers, quantization),
        warnings=tuple(fields.warnings),
    )
