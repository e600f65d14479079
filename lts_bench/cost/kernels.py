"""What a kernel costs: closed forms with a launch floor and the constants of the chip's file.

Each form adds up what cannot overlap and joins what can. Tables of measured kernels show the terms; their constants
are what ``lts-bench calibrate`` finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lts_bench.specs.chip import Chip, Experts, Gemm, GemmType, PrefillAttention
from lts_bench.specs.formats import DTYPE_BYTES, WeightFormat

FloatArray = NDArray[np.float64]
T = TypeVar("T")
US, NS = 1e-6, 1e-9
WIDER = {"fp4": "fp8", "int4": "int8", "fp8": "bf16", "int8": "bf16", "fp16": "bf16", "fp32": "bf16", "bf16": "bf16"}
ACTIVATION_BYTES = DTYPE_BYTES["bf16"]
TILE = 64
"""Rows and columns of the least tile of a product: that of the tensor cores' widest instruction on Hopper."""
QUERY_BLOCK = 128
"""Queries of one block of prefill attention, as in FlashAttention-2 and -3."""
SOFTMAX_WIDTH = 64
"""Multiply-adds in the time of an exponential: heads of 64 reach 0.7 of the rate of heads of 128 (FlashAttention-3)."""
SPLIT_TOKENS = 4096
"""Context at which half of the cost of splitting it is paid."""


@dataclass(frozen=True, slots=True)
class GemmRate:
    """How one chip multiplies one weight format.

    Attributes:
        peak: FLOP/s of the compute type.
        constants: the closed form's constants.
        input_bytes: bytes of one activation element.
        bandwidth: HBM bytes/s.
    """

    peak: float
    constants: Gemm
    input_bytes: float
    bandwidth: float

    def seconds(self, m: FloatArray, n: FloatArray, k: FloatArray, weight_bytes: FloatArray) -> FloatArray:
        """Time of (m, k) × (k, n): floor + (compute^r + memory^r + (k_ns·k)^r)^(1/r), m and n in whole tiles."""
        c, r = self.constants, self.constants.roll_off
        compute = 2 * _tiled(m) * _tiled(n) * k / (c.compute_efficiency * self.peak)
        moved = weight_bytes + m * k * self.input_bytes + m * n * ACTIVATION_BYTES
        memory = moved / (c.memory_efficiency * self.bandwidth)
        time: FloatArray = c.floor_us * US + (compute**r + memory**r + (c.k_ns * NS * k) ** r) ** (1 / r)
        return time

    def quantisation_seconds(self, m: FloatArray, k: FloatArray) -> FloatArray:
        """Quantising an (m, k) input in kernels of its own."""
        c = self.constants
        moving: FloatArray = m * k * c.quantise_bytes / (c.memory_efficiency * self.bandwidth)
        return c.quantise_us * US + moving


@dataclass(frozen=True, slots=True)
class ExpertRate:
    """How one chip runs grouped expert products of one weight format.

    Attributes:
        peak: FLOP/s of the compute type.
        constants: the closed form's constants.
        cores: units that tiles are spread over.
        bandwidth: HBM bytes/s.
    """

    peak: float
    constants: Experts
    cores: int
    bandwidth: float

    def product_seconds(
        self, rows: FloatArray, experts: FloatArray, n: FloatArray, k: FloatArray, weight_bytes: float
    ) -> FloatArray:
        """One grouped product: √((compute + tiles)² + memory²).

        Args:
            rows: tokens of all experts, those of each padded to whole tiles.
            experts: experts with any token.
            n: output features of an expert.
            k: its input features.
            weight_bytes: bytes of one weight.
        """
        c = self.constants
        compute = 2 * rows * _tiled(n) * _tiled(k) / (c.compute_efficiency * self.peak)
        tiles = np.maximum(experts, rows / (2 * TILE)) * np.ceil(n / (2 * TILE))
        memory = experts * n * k * weight_bytes / (c.memory_efficiency * self.bandwidth)
        time: FloatArray = np.hypot(compute + tiles * c.tile_us * US / self.cores, memory)
        return time

    def handling_seconds(self, copies: FloatArray, tokens: FloatArray, hidden: FloatArray | float) -> FloatArray:
        """Floor, and moving activations: ``copies`` to and from the experts' order, ``tokens`` in and out."""
        c = self.constants
        moved = (c.copy_passes * copies + c.token_passes * tokens) * hidden * ACTIVATION_BYTES
        time: FloatArray = c.floor_us * US + moved / self.bandwidth
        return time


def _tiled(size: FloatArray) -> FloatArray:
    tiled: FloatArray = np.ceil(size / TILE) * TILE
    return tiled


def compute_type(chip: Chip, weights: WeightFormat) -> str:
    """The type that multiplies: that of the wider operand, or the next wider one the chip supports.

    Chips that multiply fp4 take it with fp8 activations, which engines quantise on the way where they are wider.
    """
    activation = weights.activation
    if weights.dtype == "fp4" and "fp4" in chip.peak_flops_per_s:
        activation = min(activation, "fp8", key=lambda dtype: DTYPE_BYTES[dtype])
    wider = max((weights.dtype, activation), key=lambda dtype: DTYPE_BYTES[dtype])
    wider = WIDER[wider] if wider in ("fp16", "fp32") else wider
    while wider not in chip.peak_flops_per_s:
        wider = WIDER[wider]
    return wider


def kernel_type(kind: str, weights: WeightFormat) -> GemmType:
    """The kernel of a weight format: blocks of fp8 and weights of 4 bit have their own."""
    if kind == "fp8" and weights.dtype == "fp8" and weights.block is not None:
        return "fp8_block"
    return weights.dtype if weights.dtype in ("int4", "fp4") else kind  # type: ignore[return-value]


def _peak(chip: Chip, kind: str) -> float:
    peaks: Mapping[Any, float] = chip.peak_flops_per_s
    return peaks[kind]


def _own_or_wider(known: Mapping[Any, T], kind: str, weights: WeightFormat) -> T:
    """The constants of a weight format; those that it runs as where it has none of its own."""
    return next(known[name] for name in (kernel_type(kind, weights), kind, "bf16") if name in known)


def gemm_rate(chip: Chip, weights: WeightFormat) -> GemmRate:
    """Peak and constants of a weight format on a chip."""
    kind = compute_type(chip, weights)
    constants = _own_or_wider(chip.kernels.gemm, kind, weights)
    return GemmRate(_peak(chip, kind), constants, DTYPE_BYTES[kind], chip.hbm_bytes_per_s)


def expert_rate(chip: Chip, weights: WeightFormat) -> ExpertRate:
    """Peak and constants of experts in a weight format on a chip."""
    kind = compute_type(chip, weights)
    constants = _own_or_wider(chip.kernels.experts, kind, weights)
    return ExpertRate(_peak(chip, kind), constants, chip.cores, chip.hbm_bytes_per_s)


def prefill_attention_seconds(
    chip: Chip,
    constants: PrefillAttention,
    *,
    heads: FloatArray,
    kv_heads: FloatArray,
    queries: FloatArray,
    keys: FloatArray | float,
    longest: FloatArray | float,
    width: FloatArray | float,
    kind: str = "bf16",
) -> FloatArray:
    """Attention of prompts: floor + work on all cores + a share of the longest block + moving the operands.

    Args:
        chip: the chip.
        constants: those of ``prefill_attention`` or ``latent_prefill``.
        heads: query heads of all sequences together.
        kv_heads: their KV heads.
        queries: tokens of one sequence.
        keys: tokens that a query sees in the mean.
        longest: tokens that the last one sees.
        width: features of a query-key head and of a value head.
        kind: the compute type.
    """
    c, peak = constants, chip.peak_flops_per_s["bf16"]
    multiplied = width * (peak / _peak(chip, kind))
    score = 2 * (multiplied + 2 * SOFTMAX_WIDTH) / (c.compute_efficiency * peak)
    work = score * heads * queries * (keys + QUERY_BLOCK / 2)
    tail = score * chip.cores * c.tail * QUERY_BLOCK * (longest + QUERY_BLOCK)
    moving = c.passes * queries * (heads + kv_heads) * width * ACTIVATION_BYTES / chip.hbm_bytes_per_s
    time: FloatArray = c.floor_us * US + work + tail + moving
    return time


def _splitting(split_us: float, context: FloatArray) -> FloatArray:
    """Splitting a cache over the cores and combining the parts; saturates when all cores have a part."""
    time: FloatArray = split_us * US * context / (context + SPLIT_TOKENS)
    return time


def decode_attention_seconds(
    chip: Chip, *, kv_bytes: FloatArray, flops: FloatArray, blocks: FloatArray, context: FloatArray
) -> FloatArray:
    """Attention of one token a sequence: floor + splitting + blocks + the greater of reading and multiplying.

    Args:
        chip: the chip.
        kv_bytes: cache that is read.
        flops: multiplications with it.
        blocks: sequences × KV heads.
        context: tokens of one sequence.
    """
    c = chip.kernels.decode_attention
    peak = chip.kernels.prefill_attention.compute_efficiency * chip.peak_flops_per_s["bf16"]
    reading = kv_bytes / (c.memory_efficiency * chip.hbm_bytes_per_s)
    starting = c.floor_us * US + c.block_us * US * blocks / chip.cores
    time: FloatArray = starting + _splitting(c.split_us, context) + np.maximum(reading, flops / peak)
    return time


def latent_decode_seconds(
    chip: Chip,
    *,
    kv_bytes: FloatArray,
    flops: FloatArray,
    heads: FloatArray,
    width: FloatArray | float,
    context: FloatArray,
) -> FloatArray:
    """Absorbed MLA: floor + splitting + moving queries and outputs + √(reading² + multiplying²).

    Args:
        chip: the chip.
        kv_bytes: latents that are read.
        flops: multiplications with them.
        heads: heads of all sequences together.
        width: features of an absorbed query and an absorbed output.
        context: tokens of one sequence.
    """
    c = chip.kernels.latent_decode
    reading = kv_bytes / (c.memory_efficiency * chip.hbm_bytes_per_s)
    multiplying = flops / (c.compute_efficiency * chip.peak_flops_per_s["bf16"])
    moving = c.passes * heads * width * ACTIVATION_BYTES / chip.hbm_bytes_per_s
    time: FloatArray = c.floor_us * US + _splitting(c.split_us, context) + moving + np.hypot(reading, multiplying)
    return time


def streaming_seconds(chip: Chip, moved_bytes: FloatArray) -> FloatArray:
    """Elementwise work: bytes at the decode kernels' share of the bandwidth; its launches are counted elsewhere."""
    time: FloatArray = moved_bytes / (chip.kernels.decode_attention.memory_efficiency * chip.hbm_bytes_per_s)
    return time


def distinct_experts(experts: float, top_k: float, tokens: FloatArray, shape: float | None = None) -> FloatArray:
    """Expected experts that get at least one of ``tokens``: E(1 − (1 − k/E)·(1 − ln(1 − k/E)·(T − 1)/shape)^(−shape)).

    The first token reaches k experts. How popular an expert is among the others follows a gamma distribution of that
    shape; without one, routing is uniform: E(1 − (1 − k/E)^T).
    """
    missed = np.log1p(-min(top_k / experts, 1 - 1e-12))
    others = np.maximum(tokens - 1, 0)
    idle = np.exp(missed * others) if shape is None else (1 - missed * others / shape) ** -shape
    reached: FloatArray = experts * (1 - np.exp(missed) * idle)
    return reached
