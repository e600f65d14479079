"""How weights and caches are stored and multiplied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

WeightGroup = Literal["attention", "ffn", "shared", "experts", "router", "embed", "head"]

DTYPE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5}


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How one group of weights is stored and multiplied.

    Attributes:
        dtype: a key of ``DTYPE_BYTES``.
        block: (output features, input features) that share one scale; None for per-tensor or no scale.
        scale_bytes: bytes of one scale.
        activation: dtype of the activations multiplied with it.
    """

    dtype: str = "bf16"
    block: tuple[int, int] | None = None
    scale_bytes: float = 0.0
    activation: str = "bf16"

    def bytes(self, n: int, k: int) -> float:
        """Bytes of an ``n`` × ``k`` matrix (output × input features) with its scales, partial blocks rounded up."""
        scales = math.ceil(n / self.block[0]) * math.ceil(k / self.block[1]) if self.block else 0
        return n * k * DTYPE_BYTES[self.dtype] + scales * self.scale_bytes


@dataclass(frozen=True, slots=True)
class Precision:
    """Formats by weight group; groups left out use ``default``."""

    default: WeightFormat = WeightFormat()
    groups: tuple[tuple[WeightGroup, WeightFormat], ...] = ()
    kv: str = "bf16"

    def weights(self, group: WeightGroup) -> WeightFormat:
        """The format of a weight group."""
        return dict(self.groups).get(group, self.default)
