from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.quantities import PREFIXES, quantity, shown


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory_bytes.weights", 17_641_766_912, "17.64 GB"),
        ("memory_bytes.kv_per_sequence", 83_886_080.0, "83.89 MB"),
        ("memory_bytes.longest_sequence_tokens", 1_447_954.0, "1,447,954 tokens"),
        ("kv_bytes_per_token", 131_072, "131.1 kB"),
        ("state_bytes_per_sequence", 0, "0 B"),
        ("hbm_bytes_per_s", 3.35e12, "3.35 TB/s"),
        ("bf16_flops_per_s", 989e12, "989 TFLOP/s"),
        ("violation.memory", 0.8461, "84.61 %"),
        ("goodput_per_npu", 911.51, "911.5 tokens/s"),
        ("throughput_tokens_per_s", 7292.08, "7,292 tokens/s"),
        ("ttft_ms", 107.185, "107.2 ms"),
        ("decode_us", 12.345, "12.35 µs"),
        ("parameters.total", 8_030_261_248, "8,030,261,248"),
        ("score", 0.12346, "0.1235"),
    ],
)
def test_a_number_is_shown_with_the_unit_of_its_name(name: str, value: float, text: str) -> None:
    assert quantity(name, value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(True, "yes"), (None, "–"), ([], "–"), ([1, 2], "1, 2"), (["a", "b"], "a, b"), ("x", "x")]
)
def test_other_values_are_text(value: Any, text: str) -> None:
    assert shown("legal.tp", value) == text


@given(st.floats(min_value=1.0, max_value=9e17))
def test_a_prefix_keeps_the_value_to_four_digits(value: float) -> None:
    number, unit = quantity("memory_bytes", value).split(" ")
    assert float(number) * 1000.0 ** PREFIXES.index(unit.removesuffix("B")) == pytest.approx(value, rel=5.1e-4)
    assert 1 <= float(number) < 1000
