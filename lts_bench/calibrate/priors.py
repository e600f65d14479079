"""What is known of kernel constants before a table is read: centre and spread of each, which a fit starts from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from lts_bench.specs.chip import Chip, Gemm


class Prior(NamedTuple):
    """A constant's logarithm is normal around that of ``centre``.

    Attributes:
        centre: the likeliest value.
        spread: standard deviation of the logarithm.
        largest: upper limit.
    """

    centre: float
    spread: float
    largest: float = math.inf


def _share(centre: float, spread: float = 0.2) -> Prior:
    return Prior(centre, spread, 1.0)


PRIORS: Mapping[str, Mapping[str, Prior]] = {
    # Closed forms published for whole tables of H100, H200 and B200 in 16 bit, carried over to this form: floor 2.3 to
    # 3.2 us, k 0.59 to 0.66 ns, shares 0.73 to 0.81 and 0.85, norm 1.7 to 2.2.
    "gemm": {
        "floor_us": Prior(2.8, 0.1),
        "k_ns": Prior(0.62, 0.15),
        "compute_efficiency": _share(0.78, 0.1),
        "memory_efficiency": _share(0.853, 0.03),
        "roll_off": Prior(2.05, 0.15),
    },
    # Assumed from here on: wide enough to give way to some dozen rows.
    "prefill_attention": {
        "floor_us": Prior(13.0, 0.3),
        "compute_efficiency": _share(0.8),
        "tail": Prior(0.5, 0.5),
        "passes": Prior(3.0, 0.5),
    },
    "latent_prefill": {
        "floor_us": Prior(13.0, 0.3),
        "compute_efficiency": _share(0.8),
        "tail": Prior(0.5, 0.5),
        "passes": Prior(1.5, 0.5),
    },
    "decode_attention": {
        "floor_us": Prior(9.0, 0.3),
        "split_us": Prior(5.0, 0.7),
        "block_us": Prior(1.0, 0.7),
        "memory_efficiency": _share(0.9),
    },
    "latent_decode": {
        "floor_us": Prior(12.0, 0.3),
        "split_us": Prior(8.0, 0.7),
        "compute_efficiency": _share(0.8),
        "memory_efficiency": _share(0.85),
        "passes": Prior(2.0, 0.5),
    },
    "experts": {
        "floor_us": Prior(24.0, 0.3),
        "compute_efficiency": _share(0.7),
        "memory_efficiency": _share(0.85),
        "tile_us": Prior(1.0, 0.7),
        "copy_passes": Prior(8.0, 0.5),
        "token_passes": Prior(4.0, 0.5),
    },
}
QUANTISE = Prior(9.0, 0.3)
"""Three launches; a table with unfused quantisation cannot tell them from the product's own floor, which stays."""


def priors(chip: Chip, kernel: str, kind: str) -> Mapping[str, Prior]:
    """The constants of a kernel that a fit may change."""
    known = dict(PRIORS[kernel])
    gemm: Mapping[Any, Gemm] = chip.kernels.gemm
    if kernel == "gemm" and kind in gemm and gemm[kind].quantise_bytes:
        del known["floor_us"]
        known["quantise_us"] = QUANTISE
    return known
