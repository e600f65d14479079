"""Precision of a model: what its quantisation config says, and what the command line overrides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NoReturn

from lts_bench.specs.dtypes import base_dtype
from lts_bench.specs.exclusions import excluded_groups
from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.fields import Fields
from lts_bench.specs.formats import Precision, WeightFormat, WeightGroup
from lts_bench.specs.layers import Layer
from lts_bench.specs.model import Model

FORMATS = {
    "bf16": WeightFormat(),
    "fp8": WeightFormat("fp8", activation="fp8"),
    "fp8_block": WeightFormat("fp8", (128, 128), 4.0, "fp8"),
    "int8": WeightFormat("int8", activation="int8"),
    "int4": WeightFormat("int4", (1, 128), 2.0),
    "fp4": WeightFormat("fp4", (1, 16), 1.0, "fp4"),
}
"""Formats of ``--precision``: fp8 blocks with fp32 scales (DeepSeek-V3), fp4 with an fp8 scale for 16 (NVFP4)."""

MXFP4 = WeightFormat("fp4", (1, 32), 1.0)
"""OCP microscaling: one power of two for 32 elements; activations stay in 16 bit."""

KV_DTYPES = ("bf16", "fp16", "fp8", "int8", "fp4")
NEVER_QUANTISED: tuple[WeightGroup, ...] = ("embed", "head", "router")
"""What serving engines keep in 16 bit unless told otherwise."""

ALGORITHMS = {
    "FP8": FORMATS["fp8"],
    "FP8_PER_CHANNEL_PER_TOKEN": FORMATS["fp8"],
    "FP8_BLOCK_SCALES": FORMATS["fp8_block"],
    "FP8_PB_WO": FORMATS["fp8_block"],
    "NVFP4": FORMATS["fp4"],
    "W4A16_MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": replace(MXFP4, activation="fp8"),
    "W4A16": FORMATS["int4"],
    "W4A16_AWQ": FORMATS["int4"],
    "W4A8_AWQ": replace(FORMATS["int4"], activation="fp8"),
    "W8A16": replace(FORMATS["int8"], activation="bf16"),
    "W8A8_SQ_PER_CHANNEL": FORMATS["int8"],
}
"""ModelOpt's ``quant_algo``."""

KV_ALGORITHMS = {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp4"}
EXCLUSION_KEYS = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")


class _Quantization:
    """A quantisation config with its place in the file, for messages."""

    def __init__(self, fields: Fields, config: dict[str, Any]) -> None:
        self.fields, self.config = fields, config

    def fail(self, key: str, value: Any, legal: Iterable[Any]) -> NoReturn:
        self.fields.fail("is not supported", f"quantization_config.{key}", value, sorted(map(str, legal)))

    def group(self, weight: WeightFormat, key: str = "group_size") -> WeightFormat:
        """The format with the config's own group size; -1 is one scale a row, which weighs nothing."""
        size = self.config.get(key)
        if size is None or weight.block is None or weight.block[0] > 1:
            return weight
        if not isinstance(size, int) or isinstance(size, bool) or size == 0 or size < -1:
            self.fail(key, size, ("-1", "a positive whole number"))
        return replace(weight, block=(1, size) if size > 0 else None)


def _fp8(given: _Quantization) -> WeightFormat:
    block = given.config.get("weight_block_size")
    if block is None:
        return FORMATS["fp8"]
    if not isinstance(block, list) or len(block) != 2 or not all(isinstance(b, int) and b > 0 for b in block):
        given.fail("weight_block_size", block, ("[rows, columns]",))
    return replace(FORMATS["fp8_block"], block=(block[0], block[1]))


def _weight_only(given: _Quantization) -> WeightFormat:
    bits = given.config.get("bits", given.config.get("w_bit", 4))
    if bits not in (4, 8):
        given.fail("bits", bits, (4, 8))
    zero = bits / 8 if given.config.get("zero_point") or given.config.get("sym") is False else 0.0
    return given.group(replace(FORMATS["int4"], dtype=f"int{bits}", scale_bytes=FORMATS["int4"].scale_bytes + zero))


def _compressed_tensors(given: _Quantization) -> WeightFormat:
    groups = given.config.get("config_groups") or {}
    scheme: dict[str, Any] = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    weights, inputs = scheme.get("weights") or {}, scheme.get("input_activations")
    bits, floating = weights.get("num_bits"), weights.get("type") == "float"
    if len(groups) > 1:
        given.fields.warn("quantization_config.config_groups has several groups: the first is used for all")
    if bits not in (4, 8):
        given.fail("config_groups.weights.num_bits", bits, (4, 8))
    grouped = _Quantization(given.fields, weights)
    if bits == 8:
        block = weights.get("block_structure")
        base = _fp8(_Quantization(given.fields, {"weight_block_size": block})) if floating else FORMATS["int8"]
    else:
        base = grouped.group(FORMATS["fp4" if floating else "int4"])
    return base if inputs else replace(base, activation="bf16")


def _algorithm(given: _Quantization) -> WeightFormat:
    name = str(given.config.get("quant_algo"))
    if name not in ALGORITHMS:
        given.fail("quant_algo", name, ALGORITHMS)
    return given.group(ALGORITHMS[name])


def _bitsandbytes(given: _Quantization) -> WeightFormat:
    if given.config.get("load_in_8bit"):
        return FORMATS["int8"]
    return replace(FORMATS["int4"], block=(1, 64), scale_bytes=4.0)


METHODS: dict[str, Callable[[_Quantization], WeightFormat]] = {
    "awq": _weight_only,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "fbgemm_fp8": _fp8,
    "fp8": _fp8,
    "gptq": _weight_only,
    "modelopt": _algorithm,
    "modelopt_fp4": _algorithm,
    "mxfp4": lambda given: MXFP4,
}


def _weight_format(given: _Quantization) -> WeightFormat | None:
    method = given.config.get("quant_method") or ("modelopt" if "quant_algo" in given.config else None)
    if method == "modelopt" and given.config.get("quant_algo") is None:
        return None
    if method not in METHODS:
        given.fail("quant_method", method, METHODS)
    return METHODS[str(method)](given)


def _kv_dtype(given: _Quantization, base: str) -> str:
    scheme, name = given.config.get("kv_cache_scheme"), given.config.get("kv_cache_quant_algo")
    if isinstance(scheme, dict) and scheme.get("num_bits") is not None:
        kinds = {(8, False): "int8", (8, True): "fp8", (4, True): "fp4"}
        kind = (scheme["num_bits"], scheme.get("type", "float") == "float")
        if kind not in kinds:
            given.fail("kv_cache_scheme.num_bits", scheme["num_bits"], (4, 8))
        return kinds[kind]
    if name is not None and name not in KV_ALGORITHMS:
        given.fail("kv_cache_quant_algo", name, KV_ALGORITHMS)
    return KV_ALGORITHMS.get(name, base) if isinstance(name, str) else base


def read_precision(fields: Fields, layers: tuple[Layer, ...], side: dict[str, Any] | None = None) -> Precision:
    """Formats of every weight group and of the KV cache.

    Args:
        fields: the config.
        layers: its layers, which say what modules exist.
        side: the content of ``hf_quant_config.json``, read where the config itself says nothing.
    """
    base = base_dtype(fields)
    plain = WeightFormat(base, activation=base)
    config = fields.raw("quantization_config") or side
    if config is None:
        return Precision(plain, kv=base)
    inner = config.get("quantization", config) if isinstance(config, dict) else config
    if not isinstance(inner, dict):
        fields.fail("must be an object", "quantization_config", config)
    given = _Quantization(fields, inner)
    weight = _weight_format(given)
    if weight is None:
        return Precision(plain, kv=_kv_dtype(given, base))
    patterns = [str(each) for key in EXCLUSION_KEYS for each in inner.get(key) or ()]
    excluded = (*NEVER_QUANTISED, *excluded_groups(fields, layers, patterns))
    groups = tuple((group, plain) for group in dict.fromkeys(excluded))
    return Precision(weight, groups, _kv_dtype(given, base))


def _legal(word: str, option: str, legal: tuple[str, ...]) -> None:
    if word not in legal:
        raise InputError(f"is unknown{did_you_mean(word, legal)}", field=option, value=word, legal=legal)


def apply_precision(model: Model, precision: str = "config", kv_precision: str = "config") -> Model:
    """The model stored and computed in another precision.

    Modules that the config excludes from quantisation stay as they are; without a quantisation config, embedding,
    head and router stay in 16 bit, as engines do.

    Args:
        model: the model as its config describes it.
        precision: ``config`` or a key of ``FORMATS``.
        kv_precision: ``config`` or a dtype of the KV cache.
    """
    _legal(precision, "precision", ("config", *FORMATS))
    _legal(kv_precision, "kv_precision", ("config", *KV_DTYPES))
    chosen = model.precision
    if precision == "bf16":
        chosen = Precision(kv=chosen.kv)
    elif precision != "config":
        exceptions = chosen.groups or tuple((group, chosen.default) for group in NEVER_QUANTISED)
        chosen = Precision(FORMATS[precision], exceptions, chosen.kv)
    if kv_precision != "config":
        chosen = replace(chosen, kv=kv_precision)
    return model.with_precision(chosen)
