"""What a kernel costs: closed forms with a launch floor and the constants of the chip's file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.specs.chip import Chip, Gemm
from lts_bench.specs.formats import DTYPE_BYTES, WeightFormat

FloatArray = NDArray[np.float64]
US, NS = 1e-6, 1e-9
WIDER = {"fp4": "fp8", "int4": "int8", "fp8": "bf16", "int8": "bf16", "fp16": "bf16", "fp32": "bf16", "bf16": "bf16"}


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
        """Time of (m, k) × (k, n): t0 + ck·k + (compute^r + bytes^r)^(1/r), m rounded up to 64 in the compute."""
        c = self.constants
        rounded = np.ceil(m / 64) * 64
        compute = 2 * rounded * n * k / (c.compute_efficiency * self.peak)
        moved = weight_bytes + m * k * self.input_bytes + m * n * DTYPE_BYTES["bf16"]
        memory = moved / (c.memory_efficiency * self.bandwidth)
        time: FloatArray = (
            c.floor_us * US + c.k_ns * NS * k + (compute**c.roll_off + memory**c.roll_off) ** (1 / c.roll_off)
        )
        return time


def compute_type(chip: Chip, weights: WeightFormat) -> str:
    """The type that multiplies: that of the wider operand, or the next wider one the chip supports."""
    wider = max((weights.dtype, weights.activation), key=lambda dtype: DTYPE_BYTES[dtype])
    wider = WIDER[wider] if wider in ("fp16", "fp32") else wider
    while wider not in chip.peak_flops_per_s:
        wider = WIDER[wider]
    return wider


def _kernel(kind: str, weights: WeightFormat) -> str:
    """The kernel of a weight format: blocks of fp8 and weight-only int4 have their own."""
    if kind == "fp8" and weights.dtype == "fp8" and weights.block is not None:
        return "fp8_block"
    return "int4" if weights.dtype == "int4" else kind


def gemm_rate(chip: Chip, weights: WeightFormat) -> GemmRate:
    """Peak and constants of a weight format on a chip."""
    kind = compute_type(chip, weights)
    gemm = chip.kernels.gemm
    constants = next(gemm[name] for name in (_kernel(kind, weights), kind, "bf16") if name in gemm)
    return GemmRate(
        chip.peak_flops_per_s[kind],  # type: ignore[index]
        constants,
        DTYPE_BYTES[kind],
        chip.hbm_bytes_per_s,
    )


def prefill_attention_seconds(chip: Chip, flops: FloatArray) -> FloatArray:
    """Attention of a prompt: floor + flops / (efficiency · bf16 peak)."""
    c = chip.kernels.prefill_attention
    time: FloatArray = c.floor_us * US + flops / (c.compute_efficiency * chip.peak_flops_per_s["bf16"])
    return time


def decode_attention_seconds(chip: Chip, kv_bytes: FloatArray, flops: FloatArray) -> FloatArray:
    """Attention of one token a sequence: floor + the greater of reading the cache and multiplying."""
    c = chip.kernels.decode_attention
    peak = chip.kernels.prefill_attention.compute_efficiency * chip.peak_flops_per_s["bf16"]
    reading = kv_bytes / (c.memory_efficiency * chip.hbm_bytes_per_s)
    time: FloatArray = c.floor_us * US + np.maximum(reading, flops / peak)
    return time


def latent_attention_seconds(chip: Chip, kv_bytes: FloatArray, flops: FloatArray) -> FloatArray:
    """Absorbed MLA decode: floor + the greater of reading the latents and multiplying."""
    c = chip.kernels.latent_attention
    reading = kv_bytes / (c.memory_efficiency * chip.hbm_bytes_per_s)
    multiplying = flops / (c.compute_efficiency * chip.peak_flops_per_s["bf16"])
    time: FloatArray = c.floor_us * US + np.maximum(reading, multiplying)
    return time


def expert_seconds(chip: Chip, peak: float, flops: FloatArray, moved_bytes: FloatArray) -> FloatArray:
    """Grouped expert products without the floor: √(compute² + memory²)."""
    c = chip.kernels.moe
    compute = flops / (c.compute_efficiency * peak)
    memory = moved_bytes / (c.memory_efficiency * chip.hbm_bytes_per_s)
    time: FloatArray = np.hypot(compute, memory)
    return time


def streaming_seconds(chip: Chip, moved_bytes: FloatArray) -> FloatArray:
    """Elementwise work: bytes at the decode kernels' share of the bandwidth; its launches are counted elsewhere."""
    time: FloatArray = moved_bytes / (chip.kernels.decode_attention.memory_efficiency * chip.hbm_bytes_per_s)
    return time


def distinct_experts(experts: float, top_k: float, tokens: FloatArray) -> FloatArray:
    """Expected experts that get at least one of ``tokens`` uniformly routed tokens: E(1 − (1 − k/E)^T)."""
    time: FloatArray = experts * -np.expm1(tokens * np.log1p(-min(top_k / experts, 1 - 1e-12)))
    return time
