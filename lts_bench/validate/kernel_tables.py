"""Tables of measured kernels: which kernel a row calls with which sizes, and the closed forms' answer to many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.kernels import (
    TILE,
    compute_type,
    decode_attention_seconds,
    expert_rate,
    gemm_rate,
    latent_decode_seconds,
    prefill_attention_seconds,
)
from lts_bench.cost.nodes import mean_weight_bytes
from lts_bench.specs.chip import Chip
from lts_bench.specs.failure import InputError
from lts_bench.specs.formats import DTYPE_BYTES, WeightFormat
from lts_bench.specs.quantization import FORMATS, MXFP4
from lts_bench.validate.table import Row, SkipError, Table, number

FloatArray = NDArray[np.float64]
Sizes = Mapping[str, FloatArray]

FORMATS_IN_TABLES = {
    **FORMATS,
    "bfloat16": FORMATS["bf16"],
    "float16": FORMATS["bf16"],
    "fp16": FORMATS["bf16"],
    "int8_wo": replace(FORMATS["int8"], activation="bf16"),
    "int4_wo": FORMATS["int4"],
    "nvfp4": FORMATS["fp4"],
    "w4afp8": replace(FORMATS["int4"], activation="fp8"),
    "w4a16_mxfp4": MXFP4,
    "w4a8_mxfp4_mxfp8": replace(MXFP4, activation="fp8"),
}
MLA = {"rank": 512, "rope": 64, "query_key": 192, "value": 128}
"""Widths of DeepSeek-V3's latent attention, which the MLA tables do not name."""


@dataclass(frozen=True, slots=True)
class Call:
    """A measured kernel call.

    Attributes:
        kernel: a field of the chip's ``kernels``.
        weights: how weights, or keys and values, are stored and multiplied.
        sizes: what the closed form takes, see ``seconds``.
        shape: what calls of one layer have in common, whatever the tokens; held out together in cross-validation.
    """

    kernel: str
    weights: WeightFormat
    sizes: Mapping[str, float]
    shape: tuple[float, ...]


@dataclass(frozen=True)
class TableKind:
    """One kind of table.

    Attributes:
        name: what it is called in messages.
        columns: what a row needs, beside ``system`` and the measured ``latency_us``.
        dtype: the column of the format.
        read: from a row to a call.
    """

    name: str
    columns: tuple[str, ...]
    dtype: str
    read: Callable[[Row], Call]


def _format(row: Row, column: str) -> WeightFormat:
    word = row.get(column, "").strip().lower()
    if word not in FORMATS_IN_TABLES:
        raise SkipError(f"unknown {column} {word!r}")
    return FORMATS_IN_TABLES[word]


def _numbers(row: Row, *columns: str) -> tuple[float, ...]:
    return tuple(number(row, column) for column in columns)


def _gemm(row: Row) -> Call:
    m, n, k = _numbers(row, "m_tokens", "n_out", "k_in")
    return Call("gemm", _format(row, "gemm_dtype"), {"m": m, "n": n, "k": k}, (n, k))


def _context_attention(row: Row) -> Call:
    columns = ("batch_size", "seq_len_tokens", "num_heads", "num_key_value_heads", "head_dim")
    batch, length, heads, kv_heads, width = _numbers(row, *columns)
    sizes = {"heads": batch * heads, "kv_heads": batch * kv_heads, "length": length, "width": 2 * width}
    return Call("prefill_attention", _format(row, "attn_dtype"), sizes, (heads, kv_heads, width))


def _generation_attention(row: Row) -> Call:
    columns = ("batch_size", "kv_len_tokens", "num_heads", "num_key_value_heads", "head_dim")
    batch, length, heads, kv_heads, width = _numbers(row, *columns)
    element = DTYPE_BYTES[_format(row, "kv_cache_dtype").dtype]
    sizes = {
        "kv_bytes": 2 * batch * length * kv_heads * width * element,
        "flops": 4 * batch * length * heads * width,
        "blocks": batch * kv_heads,
        "length": length,
    }
    return Call("decode_attention", _format(row, "attn_dtype"), sizes, (heads, kv_heads, width))


def _mla(row: Row) -> Call:
    batch, length, heads = _numbers(row, "batch_size", "kv_len_tokens", "num_heads")
    weights, phase = _format(row, "mla_dtype"), row.get("phase", "").strip().lower()
    if phase == "context":
        sizes = {"heads": batch * heads, "kv_heads": batch * heads, "length": length}
        width = MLA["query_key"] + MLA["value"]
        return Call("latent_prefill", weights, sizes | {"width": width}, (heads,))
    if phase != "generation":
        raise SkipError(f"phase must be context or generation, not {phase!r}")
    latent, width = MLA["rank"] + MLA["rope"], 2 * MLA["rank"] + MLA["rope"]
    sizes = {
        "kv_bytes": batch * length * latent * DTYPE_BYTES[_format(row, "kv_cache_dtype").dtype],
        "flops": 2 * batch * length * heads * width,
        "heads": batch * heads,
        "width": width,
        "length": length,
    }
    return Call("latent_decode", weights, sizes, (heads,))


def _moe(row: Row) -> Call:
    """Experts of one rank: all tokens of the group are there, their copies spread evenly over experts and ranks."""
    tokens, hidden, inter, top_k, experts = _numbers(
        row, "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"
    )
    tp, ep = _numbers(row, "moe_tp_size", "moe_ep_size")
    copies = max(tokens * top_k / ep, 1.0)
    touched = min(experts / ep, copies)
    sizes = {
        "tokens": tokens,
        "copies": copies,
        "experts": touched,
        "rows": touched * np.ceil(copies / touched / TILE) * TILE,
        "hidden": hidden,
        "inter": inter / tp,
    }
    return Call("experts", _format(row, "moe_dtype"), sizes, (hidden, inter, experts))


KINDS = (
    TableKind("GEMM", ("gemm_dtype", "m_tokens", "n_out", "k_in"), "gemm_dtype", _gemm),
    TableKind(
        "context attention",
        ("attn_dtype", "batch_size", "seq_len_tokens", "num_heads", "num_key_value_heads", "head_dim"),
        "attn_dtype",
        _context_attention,
    ),
    TableKind(
        "generation attention",
        ("attn_dtype", "kv_cache_dtype", "batch_size", "kv_len_tokens", "num_heads", "num_key_value_heads", "head_dim"),
        "attn_dtype",
        _generation_attention,
    ),
    TableKind(
        "MLA", ("phase", "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "kv_len_tokens"), "mla_dtype", _mla
    ),
    TableKind(
        "MoE",
        ("moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"),
        "moe_dtype",
        _moe,
    ),
)
LATENCY = "latency_us"


def table_kind(table: Table) -> TableKind:
    """Tell the kind of a table by its columns.

    Raises:
        InputError: it is none of ours.
    """
    for kind in KINDS:
        if set(kind.columns) <= set(table.columns):
            return kind
    near = max(KINDS, key=lambda kind: len(set(kind.columns) & set(table.columns)))
    missing = [name for name in near.columns if name not in table.columns]
    rule = f"is no table of kernels: nearest is {near.name}, whose columns {', '.join(missing)} are missing"
    raise InputError(rule, source=table.source, field="header", legal=tuple(kind.name for kind in KINDS))


def seconds(chip: Chip, kernel: str, weights: WeightFormat, sizes: Sizes) -> FloatArray:
    """(calls,) time of calls of one kernel with one format; ``sizes`` are those of ``Call``, as arrays."""
    return _SECONDS[kernel](chip, weights, sizes)


def _gemm_seconds(chip: Chip, weights: WeightFormat, sizes: Sizes) -> FloatArray:
    rate = gemm_rate(chip, weights)
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    return rate.seconds(m, n, k, n * k * mean_weight_bytes(weights)) + rate.quantisation_seconds(m, k)


def _prefill(chip: Chip, weights: WeightFormat, sizes: Sizes, latent: bool) -> FloatArray:
    return prefill_attention_seconds(
        chip,
        chip.kernels.latent_prefill if latent else chip.kernels.prefill_attention,
        heads=sizes["heads"],
        kv_heads=sizes["kv_heads"],
        queries=sizes["length"],
        keys=sizes["length"] / 2,
        longest=sizes["length"],
        width=sizes["width"],
        kind=compute_type(chip, weights),
    )


def _decode(chip: Chip, weights: WeightFormat, sizes: Sizes) -> FloatArray:
    return decode_attention_seconds(
        chip, kv_bytes=sizes["kv_bytes"], flops=sizes["flops"], blocks=sizes["blocks"], context=sizes["length"]
    )


def _latent_decode(chip: Chip, weights: WeightFormat, sizes: Sizes) -> FloatArray:
    return latent_decode_seconds(
        chip,
        kv_bytes=sizes["kv_bytes"],
        flops=sizes["flops"],
        heads=sizes["heads"],
        width=sizes["width"],
        context=sizes["length"],
    )


def _expert_seconds(chip: Chip, weights: WeightFormat, sizes: Sizes) -> FloatArray:
    rate, element = expert_rate(chip, weights), mean_weight_bytes(weights)
    rows, experts, hidden, inter = (sizes[name] for name in ("rows", "experts", "hidden", "inter"))
    up = rate.product_seconds(rows, experts, 2 * inter, hidden, element)
    down = rate.product_seconds(rows, experts, hidden, inter, element)
    return up + down + rate.handling_seconds(sizes["copies"], sizes["tokens"], hidden)


_SECONDS: dict[str, Callable[[Chip, WeightFormat, Sizes], FloatArray]] = {
    "gemm": _gemm_seconds,
    "prefill_attention": lambda chip, weights, sizes: _prefill(chip, weights, sizes, latent=False),
    "latent_prefill": lambda chip, weights, sizes: _prefill(chip, weights, sizes, latent=True),
    "decode_attention": _decode,
    "latent_decode": _latent_decode,
    "experts": _expert_seconds,
}
