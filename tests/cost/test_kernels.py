from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.kernels import (
    compute_type,
    decode_attention_seconds,
    distinct_experts,
    expert_seconds,
    gemm_rate,
    latent_attention_seconds,
    prefill_attention_seconds,
)
from lts_bench.specs.chip import list_chips, load_chip
from lts_bench.specs.formats import WeightFormat
from lts_bench.specs.quantization import FORMATS, MXFP4

KERNELS = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
H100 = load_chip("h100")


def gemm(chip_name: str, weights: WeightFormat, m: float, n: float, k: float) -> float:
    values = (np.array([x]) for x in (m, n, k, n * k * 2.0))
    return float(gemm_rate(load_chip(chip_name), weights).seconds(*values)[0])


def test_gemm_by_hand() -> None:
    # m = 100 is computed as 128; compute 2·128·4096·4096/(.796·989e12), memory (2·4096² + 2·100·8192)/(.885·3350e9).
    compute = 2 * 128 * 4096**2 / (0.796 * 989e12)
    memory = (2 * 4096**2 + 100 * 4096 * 2 + 100 * 4096 * 2) / (0.885 * 3350e9)
    expected = 2.93e-6 + 0.341e-9 * 4096 + (compute**2.9 + memory**2.9) ** (1 / 2.9)
    assert gemm("h100", FORMATS["bf16"], 100, 4096, 4096) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("chip", "weights", "kind", "peak"),
    [
        ("h100", FORMATS["bf16"], "bf16", 989e12),
        ("h100", FORMATS["fp8"], "fp8", 1979e12),
        ("h100", FORMATS["int4"], "bf16", 989e12),
        ("h100", MXFP4, "bf16", 989e12),  # 16-bit activations
        ("a100", FORMATS["fp8"], "bf16", 312e12),  # no fp8 units
        ("h100", WeightFormat("fp32", activation="fp32"), "bf16", 989e12),
    ],
)
def test_compute_runs_at_the_wider_operand(chip: str, weights: WeightFormat, kind: str, peak: float) -> None:
    assert compute_type(load_chip(chip), weights) == kind
    assert gemm_rate(load_chip(chip), weights).peak == peak


def test_weight_only_int4_and_fp8_blocks_have_kernels_of_their_own() -> None:
    kernels = H100.kernels.gemm
    assert gemm_rate(H100, FORMATS["int4"]).constants == kernels["int4"]
    assert gemm_rate(H100, FORMATS["fp8_block"]).constants == kernels["fp8_block"]
    assert gemm_rate(H100, FORMATS["fp8"]).constants == kernels["fp8"]


@given(
    st.sampled_from(list_chips()), st.sampled_from(sorted(FORMATS)),
    st.floats(1, 1e5), st.floats(1, 1e5), st.floats(1, 1e5),
)  # fmt: skip
def test_no_product_beats_the_peak(chip: str, name: str, m: float, n: float, k: float) -> None:
    rate = gemm_rate(load_chip(chip), FORMATS[name])
    assert 2 * m * n * k / rate.peak <= gemm(chip, FORMATS[name], m, n, k)


@given(st.floats(1, 1e5), st.floats(1, 4))
def test_a_product_never_gets_faster_with_more_tokens(m: float, more: float) -> None:
    assert gemm("h100", FORMATS["fp8"], m, 1024, 1024) <= gemm("h100", FORMATS["fp8"], m * more, 1024, 1024)


def test_attention_by_hand() -> None:
    one = np.array([1e12])
    assert prefill_attention_seconds(H100, one)[0] == pytest.approx(13e-6 + 1e12 / (0.57 * 989e12))
    reading = np.array([1e9])
    assert decode_attention_seconds(H100, reading, 0 * one)[0] == pytest.approx(9e-6 + 1e9 / (0.91 * 3350e9))
    assert latent_attention_seconds(H100, reading, 0 * one)[0] == pytest.approx(14e-6 + 1e9 / (0.9 * 3350e9))
    # Many heads on one latent: the multiplications bind.
    assert latent_attention_seconds(H100, 0 * reading, one)[0] == pytest.approx(14e-6 + 1e12 / (0.55 * 989e12))


def test_experts_take_the_root_of_squares() -> None:
    compute, memory = 1e12 / (0.45 * 989e12), 1e9 / (0.75 * 3350e9)
    assert expert_seconds(H100, 989e12, np.array([1e12]), np.array([1e9]))[0] == pytest.approx(
        np.hypot(compute, memory)
    )


def test_distinct_experts_by_hand() -> None:
    # 8 experts, 2 each: one token meets 2, two tokens 8·(1 − (3/4)²) = 3.5.
    assert distinct_experts(8, 2, np.array([1.0, 2.0])) == pytest.approx([2.0, 3.5])
    assert distinct_experts(8, 8, np.array([1.0]))[0] == pytest.approx(8)


@pytest.mark.skipif(not KERNELS.is_dir(), reason="needs the measured tables beside the repository")
@pytest.mark.parametrize(("table", "chip"), [("h100", "h100"), ("b200", "b200")])
def test_median_error_on_measured_bf16_products(table: str, chip: str) -> None:
    import pandas as pd

    rows = pd.read_csv(KERNELS / f"gemm_{table}_sxm.csv")
    rows = rows[rows.gemm_dtype == "bfloat16"]
    shapes = zip(rows.m_tokens, rows.n_out, rows.k_in, strict=True)
    predicted = [gemm(chip, FORMATS["bf16"], m, n, k) * 1e6 for m, n, k in shapes]
    assert np.median(np.abs(np.array(predicted) / rows.latency_us - 1)) < 0.12
