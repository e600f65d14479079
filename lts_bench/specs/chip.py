"""A chip: its datasheet's peaks and the constants of its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.loading import AtLeastOne, Count, NonNegative, Positive, RuleError, Share, Text

ComputeType = Literal["bf16", "fp8", "fp4", "int8"]
GemmType = Literal["bf16", "fp8", "fp8_block", "int8", "int4", "fp4"]


class Fitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Constants of one kernel, after the formula in ``lts_bench.cost.kernels``.

    Attributes:
        floor_us: launch and everything else that does not grow with the work.
        relative_error: standard error of the kernel's time, as a share of it; that of the fit, or assumed.
    """

    floor_us: NonNegative
    relative_error: NonNegative = 0.2


class Gemm(Fitted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Matrix product.

    Attributes:
        k_ns: time of one step of the sum over k on an idle chip.
        roll_off: exponent of the norm that joins compute, memory and the sum over k; infinite is their maximum.
        quantise_us: launches of a quantisation of the inputs that nothing fuses.
        quantise_bytes: what that quantisation moves for each element of the input.
    """

    k_ns: NonNegative
    compute_efficiency: Share
    memory_efficiency: Share
    roll_off: AtLeastOne
    quantise_us: NonNegative = 0.0
    quantise_bytes: NonNegative = 0.0


class PrefillAttention(Fitted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attention of whole prompts.

    Attributes:
        tail: share of the longest block's time in which other cores idle.
        passes: how often queries, keys, values and outputs are moved.
    """

    compute_efficiency: Share
    tail: NonNegative
    passes: NonNegative


class DecodeAttention(Fitted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attention of one new token a sequence.

    Attributes:
        split_us: splitting a long cache over the cores and combining the parts.
        block_us: one KV head of one sequence on a core.
    """

    split_us: NonNegative
    block_us: NonNegative
    memory_efficiency: Share


class LatentDecode(Fitted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Absorbed MLA attention of one new token a sequence.

    Attributes:
        split_us: splitting a long cache over the cores and combining the parts.
        passes: how often queries and outputs are moved.
    """

    split_us: NonNegative
    compute_efficiency: Share
    memory_efficiency: Share
    passes: NonNegative


class Experts(Fitted, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fused experts.

    Attributes:
        tile_us: begin and end of one tile of a product on a core.
        copy_passes: how often the routed copies of the tokens are moved.
        token_passes: how often the tokens themselves are moved.
    """

    compute_efficiency: Share
    memory_efficiency: Share
    tile_us: NonNegative
    copy_passes: NonNegative
    token_passes: NonNegative


class Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants of every kernel of a chip.

    Attributes:
        gemm: by type of the weights; types left out run as the widest one.
        experts: likewise.
        small_kernel_us: a norm, an activation, a rotary embedding: whatever only has a launch floor.
        small_kernel_relative_error: of that time; assumed where left out.
    """

    gemm: dict[GemmType, Gemm]
    prefill_attention: PrefillAttention
    decode_attention: DecodeAttention
    latent_prefill: PrefillAttention
    latent_decode: LatentDecode
    experts: dict[GemmType, Experts]
    small_kernel_us: NonNegative
    small_kernel_relative_error: NonNegative = 0.3

    def __post_init__(self) -> None:
        for name, by_type in (("gemm", self.gemm), ("experts", self.experts)):
            if "bf16" not in by_type:
                raise RuleError("required key is missing", field=f"{name}.bf16")


class Chip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One device.

    Attributes:
        peak_flops_per_s: dense peaks by compute type, without sparsity.
        cores: units that blocks of a kernel are spread over (streaming multiprocessors, compute units).
        hbm_bytes: printed capacity.
        hbm_bytes_usable: what software sees; the printed capacity where left out.
        hbm_bytes_per_s: memory bandwidth.
        power_w: board power, where known.
    """

    name: Text
    vendor: Text
    peak_flops_per_s: dict[ComputeType, Positive]
    cores: Count
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
