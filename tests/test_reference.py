"""The published number of a task."""

from __future__ import annotations

import lts_bench
from lts_bench.space.megatron import megatron_vectors


def test_the_reference_fits_the_memory_where_the_least_violating_strategy_does_not() -> None:
    task = lts_bench.load_task("llama-4-maverick/tpu-v5p-4x4x8/train-00525")
    vectors = megatron_vectors(task.space)
    violation = task.evaluate(vectors)["violation"]
    assert violation[violation.sum(axis=1).argmin(), 0] > 0
    reference = task.reference
    assert not reference.meets_slo
    assert reference.goodput_per_npu > 0
    assert task.evaluate([task.space.encode(reference.strategy)])["violation"][0, 0] == 0
