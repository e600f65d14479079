from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.kernels import (
    compute_type,
    decode_attention_seconds,
    distinct_experts,
    expert_rate,
    gemm_rate,
    latent_decode_seconds,
    prefill_attention_seconds,
)
from lts_bench.specs.chip import list_chips, load_chip
from lts_bench.specs.formats import WeightFormat
from lts_bench.specs.quantization import FORMATS, MXFP4
from lts_bench.validate.kernels import predict_kernels
from lts_bench.validate.table import error_statistics, measured, read_table

KERNELS = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
H100 = load_chip("h100")
CHIPS = {name: load_chip(name) for name in list_chips()}
SIZES = st.floats(1, 1e5)
GROWTH = st.floats(1, 4)


def gemm(chip_name: str, weights: WeightFormat, m: float, n: float, k: float) -> float:
    values = (np.array([x]) for x in (m, n, k, n * k * 2.0))
    return float(gemm_rate(CHIPS[chip_name], weights).seconds(*values)[0])


def prefill(chip_name: str, heads: float, kv_heads: float, length: float, width: float = 256) -> float:
    chip = CHIPS[chip_name]
    one = np.array([length])
    time = prefill_attention_seconds(
        chip,
        chip.kernels.prefill_attention,
        heads=np.array([heads]),
        kv_heads=np.array([kv_heads]),
        queries=one,
        keys=one / 2,
        longest=one,
        width=width,
    )
    return float(time[0])


def decode(chip_name: str, batch: float, length: float, heads: float, kv_heads: float) -> float:
    time = decode_attention_seconds(
        CHIPS[chip_name],
        kv_bytes=np.array([batch * length * kv_heads * 2 * 128 * 2]),
        flops=np.array([4 * batch * length * heads * 128]),
        blocks=np.array([batch * kv_heads]),
        context=np.array([length]),
    )
    return float(time[0])


def latent(chip_name: str, batch: float, length: float, heads: float) -> float:
    time = latent_decode_seconds(
        CHIPS[chip_name],
        kv_bytes=np.array([batch * length * 576 * 2]),
        flops=np.array([2 * batch * length * heads * 1088]),
        heads=np.array([batch * heads]),
        width=1088,
        context=np.array([length]),
    )
    return float(time[0])


def experts(chip_name: str, rows: float, touched: float, n: float, k: float) -> float:
    rate = expert_rate(CHIPS[chip_name], FORMATS["bf16"])
    return float(rate.product_seconds(*(np.array([x]) for x in (rows, touched, n, k)), 2.0)[0])


def test_gemm_by_hand() -> None:
    # m = 100 is computed as 128, n = 4,100 as 4,160; 2.846 us and 0.658 ns a step of k as in the chip's file.
    compute = 2 * 128 * 4160 * 4096 / (0.8096 * 989e12)
    memory = (2 * 4100 * 4096 + 100 * 4096 * 2 + 100 * 4100 * 2) / (0.8345 * 3350e9)
    joined = (compute**2.567 + memory**2.567 + (0.658e-9 * 4096) ** 2.567) ** (1 / 2.567)
    assert gemm("h100", FORMATS["bf16"], 100, 4100, 4096) == pytest.approx(2.846e-6 + joined)


def test_unfused_quantisation_by_hand() -> None:
    # Two passes over 16-bit inputs, one to find the scale and one that writes a byte: 5 bytes an element.
    m, k = np.array([1024.0]), np.array([4096.0])
    expected = 8.966e-6 + 5 * 1024 * 4096 / (0.8092 * 3350e9)
    assert gemm_rate(H100, FORMATS["fp8"]).quantisation_seconds(m, k)[0] == pytest.approx(expected)
    assert gemm_rate(H100, FORMATS["bf16"]).quantisation_seconds(m, k)[0] == 0


@pytest.mark.parametrize(
    ("chip", "weights", "kind", "peak"),
    [
        ("h100", FORMATS["bf16"], "bf16", 989e12),
        ("h100", FORMATS["fp8"], "fp8", 1979e12),
        ("h100", FORMATS["int4"], "bf16", 989e12),
        ("h100", MXFP4, "bf16", 989e12),  # 16-bit activations
        ("b200", MXFP4, "fp8", 4500e12),  # quantised on the way
        ("b200", FORMATS["fp4"], "fp4", 9000e12),
        ("a100", FORMATS["fp8"], "bf16", 312e12),  # no fp8 units
        ("h100", WeightFormat("fp32", activation="fp32"), "bf16", 989e12),
    ],
)
def test_compute_runs_at_the_wider_operand(chip: str, weights: WeightFormat, kind: str, peak: float) -> None:
    assert compute_type(load_chip(chip), weights) == kind
    assert gemm_rate(load_chip(chip), weights).peak == peak
    assert expert_rate(load_chip(chip), weights).peak == peak


def test_weight_only_int4_and_fp8_blocks_have_kernels_of_their_own() -> None:
    kernels = H100.kernels.gemm
    assert gemm_rate(H100, FORMATS["int4"]).constants == kernels["int4"]
    assert gemm_rate(H100, FORMATS["fp8_block"]).constants == kernels["fp8_block"]
    assert gemm_rate(H100, FORMATS["fp8"]).constants == kernels["fp8"]
    # Experts of a type that the file leaves out run as the widest.
    assert expert_rate(H100, FORMATS["fp8_block"]).constants == H100.kernels.experts["fp8_block"]
    assert expert_rate(H100, FORMATS["int4"]).constants == H100.kernels.experts["bf16"]


def test_prefill_attention_by_hand() -> None:
    # 32 heads and 8 KV heads of 128, 1,024 tokens; a score costs 2·(256 + 128) flops; the diagonal block is computed
    # whole; the last block of 128 queries sees 1,024 + 128 keys on one of 132 cores.
    score = 2 * (256 + 128) / (0.8806 * 989e12)
    work = score * 32 * 1024 * (512 + 64)
    tail = 0.4515 * score * 132 * 128 * (1024 + 128)
    moving = 2.554 * 1024 * 40 * 256 * 2 / 3350e9
    assert prefill("h100", 32, 8, 1024) == pytest.approx(12.14e-6 + work + tail + moving)


def test_decode_attention_by_hand() -> None:
    # 64 sequences of 4,096 with 8 KV heads: half of the splitting, 512 blocks on 132 cores, 1.07 GB read.
    reading = 64 * 4096 * 8 * 256 * 2 / (0.9274 * 3350e9)
    expected = 11.04e-6 + 5.306e-6 / 2 + 1.759e-6 * 512 / 132 + reading
    assert decode("h100", 64, 4096, 32, 8) == pytest.approx(expected)


def test_latent_decode_by_hand() -> None:
    # DeepSeek-V3's latents of 512 + 64, 16 sequences of 4,096, 128 heads.
    reading = 16 * 4096 * 576 * 2 / (0.9385 * 3350e9)
    multiplying = 2 * 16 * 4096 * 128 * 1088 / 989e12
    moving = 2.33 * 16 * 128 * 1088 * 2 / 3350e9
    expected = 13.83e-6 + 9.746e-6 / 2 + moving + np.hypot(reading, multiplying)
    assert latent("h100", 16, 4096, 128) == pytest.approx(expected)


def test_experts_by_hand() -> None:
    # 8 experts, a tile of 64 rows each, 1,536 × 4,096: 12 tiles of columns an expert, half tiles count as whole.
    compute = 2 * 8 * 64 * 1536 * 4096 / 989e12 + 8 * 12 * 0.8901e-6 / 132
    memory = 8 * 1536 * 4096 * 2 / (0.8971 * 3350e9)
    assert experts("h100", 8 * 64, 8, 1536, 4096) == pytest.approx(np.hypot(compute, memory))
    handling = expert_rate(H100, FORMATS["bf16"]).handling_seconds(np.array([256.0]), np.array([32.0]), 4096)
    assert handling[0] == pytest.approx(25.93e-6 + (6.394 * 256 + 3.489 * 32) * 4096 * 2 / 3350e9)


def test_distinct_experts_by_hand() -> None:
    # 8 experts, 2 each: one token meets 2, two tokens 8·(1 − (3/4)²) = 3.5.
    assert distinct_experts(8, 2, np.array([1.0, 2.0])) == pytest.approx([2.0, 3.5])
    assert distinct_experts(8, 8, np.array([1.0]))[0] == pytest.approx(8)
    # popularity with the shape 1: ln(1 - 2/8) = -0.28768; the second token misses what the first did in 1/1.28768
    assert distinct_experts(8, 2, np.array([1.0, 2.0]), 1.0) == pytest.approx([2.0, 8 * (1 - 0.75 / 1.28768)], rel=1e-5)
    assert distinct_experts(8, 2, np.array([9.0]), 1e9) == pytest.approx(distinct_experts(8, 2, np.array([9.0])))


@given(st.sampled_from(list_chips()), st.sampled_from(sorted(FORMATS)), SIZES, SIZES, SIZES)
def test_no_product_beats_the_roofline(chip: str, name: str, m: float, n: float, k: float) -> None:
    rate = gemm_rate(CHIPS[chip], FORMATS[name])
    time = gemm(chip, FORMATS[name], m, n, k)
    assert 2 * m * n * k / rate.peak <= time * (1 + 1e-12)
    assert n * k * 2 / rate.bandwidth <= time


@given(st.sampled_from(list_chips()), st.integers(1, 4096), st.integers(1, 8), st.integers(1, 32_768))
def test_no_attention_beats_the_roofline(chip: str, rows: int, group: int, length: int) -> None:
    peak, bandwidth = CHIPS[chip].peak_flops_per_s["bf16"], CHIPS[chip].hbm_bytes_per_s
    assert 2 * rows * group * length**2 / 2 * 256 / peak <= prefill(chip, rows * group, rows, length)
    assert rows * length * 512 / bandwidth <= decode(chip, rows, length, group, 1)
    assert rows * length * 1152 / bandwidth <= latent(chip, rows, length, group)
    assert 2 * rows * length * group * 1088 / peak <= latent(chip, rows, length, group)


@given(st.sampled_from(list_chips()), st.sampled_from(sorted(FORMATS)), SIZES, SIZES, SIZES, GROWTH, GROWTH, GROWTH)
def test_a_greater_product_is_never_faster(
    chip: str, name: str, m: float, n: float, k: float, a: float, b: float, c: float
) -> None:
    weights = FORMATS[name]
    assert gemm(chip, weights, m, n, k) <= gemm(chip, weights, m * a, n * b, k * c)
    assert experts(chip, m, min(m, 64), n, k) <= experts(chip, m * a, min(m, 64), n * b, k * c)


@given(
    st.sampled_from(list_chips()), st.floats(1, 512), st.floats(1, 32_768), st.floats(1, 128), GROWTH, GROWTH, GROWTH
)
def test_more_attention_is_never_faster(
    chip: str, batch: float, length: float, heads: float, a: float, b: float, c: float
) -> None:
    assert prefill(chip, batch * heads, batch, length) <= prefill(chip, a * batch * c * heads, a * batch, b * length)
    assert decode(chip, batch, length, heads, 1) <= decode(chip, a * batch, b * length, c * heads, 1)
    assert latent(chip, batch, length, heads) <= latent(chip, a * batch, b * length, c * heads)


def errors(table: str, chip: str, **wanted: str) -> tuple[float, float]:
    """(median, 90th percentile) of the absolute percentage error on the rows with the wanted cells."""
    read = read_table(KERNELS / f"{table}_{chip}_sxm.csv")
    predictions, _ = predict_kernels(read)
    pairs: list[tuple[Any, float]] = [
        (measured(row, "latency_us"), each.values["latency_us"])
        for row, each in zip(read.rows, predictions, strict=True)
        if all(row[column] == cell for column, cell in wanted.items()) and _scored(table, row)
    ]
    assert len(pairs) > 20
    found = error_statistics(*zip(*pairs, strict=True))
    return found["median_error_percent"], found["p90_error_percent"]


def _scored(table: str, row: dict[str, str]) -> bool:
    """Smaller caches stay in the second-level cache from call to call, which no serving step can hope for."""
    if table != "generation_attention":
        return True
    sizes = (float(row[name]) for name in ("batch_size", "kv_len_tokens", "num_key_value_heads", "head_dim"))
    return float(np.prod(list(sizes))) * 4 >= 100e6


@pytest.mark.skipif(not KERNELS.is_dir(), reason="needs the measured tables beside the repository")
@pytest.mark.parametrize("chip", ["h100", "b200"])
@pytest.mark.parametrize(
    ("table", "wanted", "median", "p90"),
    [
        ("gemm", {"gemm_dtype": "bfloat16"}, 6, 20),
        ("gemm", {"gemm_dtype": "fp8"}, 6, 20),
        ("context_attention", {}, 6, 20),
        ("generation_attention", {}, 8, 20),
        ("mla", {"phase": "generation"}, 8, 40),
        ("mla", {"phase": "context"}, 8, 20),
        ("moe", {}, 22, 50),
    ],
)
def test_error_on_measured_kernels(table: str, wanted: dict[str, str], median: float, p90: float, chip: str) -> None:
    found = errors(table, chip, **wanted)
    assert found[0] <= median
    assert found[1] <= p90
