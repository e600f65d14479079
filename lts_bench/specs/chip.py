"""A chip: its datasheet's peaks and the constants of its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.loading import Count, NonNegative, Positive, RuleError, Share, Text

ComputeType = Literal["bf16", "fp8", "fp4", "int8"]
GemmType = Literal["bf16", "fp8", "fp8_block", "int8", "int4", "fp4"]


class Gemm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Matrix product, m × k times k × n: t = floor + k_ns·k + (compute^r + memory^r)^(1/r).

    Compute is 2·m64·n·k / (compute_efficiency · peak) with m64 = m rounded up to 64, memory is
    bytes / (memory_efficiency · bandwidth), r is ``roll_off``.
    """

    floor_us: NonNegative
    k_ns: NonNegative
    compute_efficiency: Share
    memory_efficiency: Share
    roll_off: Positive


class PrefillAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attention of a whole prompt: a floor and a share of the compute peak."""

    compute_efficiency: Share
    floor_us: NonNegative


class DecodeAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attention of one new token a sequence: a floor and a share of the memory bandwidth."""

    memory_efficiency: Share
    floor_us: NonNegative


class LatentAttentionKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decode attention on a latent cache (MLA, absorbed): a floor, shares of both peaks."""

    compute_efficiency: Share
    memory_efficiency: Share
    floor_us: NonNegative


class MoeKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fused experts: a floor, shares of both peaks, tokens of an expert padded to ``tile_tokens``."""

    compute_efficiency: Share
    memory_efficiency: Share
    floor_us: NonNegative
    tile_tokens: Count


class Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants of every kernel of a chip.

    Attributes:
        gemm: by type of the weights; types left out run as the widest one.
        small_kernel_us: a norm, an activation, a rotary embedding: whatever only has a launch floor.
    """

    gemm: dict[GemmType, Gemm]
    prefill_attention: PrefillAttention
    decode_attention: DecodeAttention
    latent_attention: LatentAttentionKernel
    moe: MoeKernel
    small_kernel_us: NonNegative

    def __post_init__(self) -> None:
        if "bf16" not in self.gemm:
            raise RuleError("required key is missing", field="gemm.bf16")


class Chip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One device.

    Attributes:
        peak_flops_per_s: dense peaks by compute type, without sparsity.
        hbm_bytes: printed capacity.
        hbm_bytes_usable: what software sees; the printed capacity where left out.
        hbm_bytes_per_s: memory bandwidth.
        power_w: board power, where known.
    """

    name: Text
    vendor: Text
    peak_flops_per_s: dict[ComputeType, Positive]
    hbm_bytes: Positive
    hbm_bytes_per_s: Positive
    kernels: Kernels
    hbm_bytes_usable: Positive = 0.0
    power_w: Positive | None = None

    def __post_init__(self) -> None:
        if "bf16" not in self.peak_flops_per_s:
            raise RuleError("required key is missing", field="peak_flops_per_s.bf16")
        if not self.hbm_bytes_usable:
            msgspec.structs.force_setattr(self, "hbm_bytes_usable", self.hbm_bytes)


_SHELF = Shelf("chip", Chip, "lts_bench.data", "chips")


def list_chips() -> list[str]:
    """Names of the built-in chips."""
    return _SHELF.names()


def load_chip(ref: str | Path, named_in: Path | None = None) -> Chip:
    """Load a built-in chip by name, or a YAML file by path (relative to the file that names it, if any)."""
    return _SHELF.load(ref, named_in)


def sparse_peaks(chip: Chip) -> list[str]:
    """Warnings where a chip's peak is twice the dense peak of the built-in chip of the same name."""
    known = [name for name in list_chips() if _same_device(chip.name, name)]
    if not known:
        return []
    dense: dict[Any, float] = dict(load_chip(max(known, key=len)).peak_flops_per_s)
    return [
        f"{chip.name}: peak_flops_per_s.{kind} {peak:g} is the datasheet's sparse figure; dense is {dense[kind]:g}"
        for kind, peak in sorted(chip.peak_flops_per_s.items())
        if abs(peak / dense.get(kind, peak) - 2) < 0.02
    ]


def _same_device(name: str, known: str) -> bool:
    words = "-".join(name.lower().replace("_", " ").split())
    return words == known or words.startswith(f"{known}-")
