from __future__ import annotations

from pathlib import Path

import pytest
from measured_rows import BATCH, SATURATED

from lts_bench.validate.performance import load_kind, replicas, row_deployment
from lts_bench.validate.table import SkipError

NONE = Path("nowhere")
MIXTRAL = SATURATED | {"model": "Mixtral 8x7B"}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (SATURATED, "throughput"),
        (BATCH, "static"),
        (BATCH | {"request_rate_qps": "1e9"}, "online"),
        ({}, "throughput"),
        (SATURATED | {"batch": " "}, "throughput"),
    ],
)
def test_kinds_of_load(row: dict[str, str], kind: str) -> None:
    assert load_kind(row) == kind


def test_a_dense_row() -> None:
    found = row_deployment(SATURATED, NONE)
    degrees = found.strategy.degrees
    assert (degrees.tp, degrees.pp, degrees.dp, degrees.replicas) == (2, 1, 1, 1)
    assert (found.cluster.name, found.cluster.devices, found.engine.name) == ("h100-2", 2, "trtllm-cpp")
    assert (found.workload.isl, found.workload.osl, found.workload.free_memory_fraction) == (1000, 1000, 0.9)


def test_fp8_rows_of_tensorrt_llm_keep_the_cache_in_fp8() -> None:
    assert row_deployment(SATURATED, NONE).model.precision.kv == "fp8"
    assert row_deployment(SATURATED | {"precision": "FP16"}, NONE).model.precision.kv == "bf16"
    assert row_deployment(SATURATED | {"software": "vLLM"}, NONE).model.precision.kv == "bf16"


def test_the_vocabulary_of_faster_transformer() -> None:
    assert row_deployment(BATCH, NONE).model.vocab == 51_200
    # Its config says 50,257.
    assert row_deployment(BATCH | {"model": "GPT-175B", "tp": "8", "n_acc": "8"}, NONE).model.vocab == 51_200
    assert row_deployment(SATURATED, NONE).model.vocab == 128_256


@pytest.mark.parametrize(
    ("cells", "ep", "etp"), [({}, 1, 2), ({"ep": "2"}, 2, 1), ({"dp": "2", "n_acc": "4", "ep": "4"}, 4, 1)]
)
def test_experts_take_what_expert_parallelism_leaves(cells: dict[str, str], ep: int, etp: int) -> None:
    degrees = row_deployment(MIXTRAL | cells, NONE).strategy.degrees
    assert (degrees.ep, degrees.etp) == (ep, etp)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (SATURATED | {"tp": ""}, "tp is missing"),
        (SATURATED | {"tp": "1.5"}, "tp must be a whole number"),
        (SATURATED | {"software": "llama.cpp"}, "unknown engine"),
        (SATURATED | {"model": "LLaMA 9"}, "unknown model"),
        (SATURATED | {"accelerator": "abacus"}, "unknown system"),
        (SATURATED | {"precision": ""}, "unknown precision"),
        (SATURATED | {"pp": "64"}, "pp 64 exceeds the model's 32 layers"),
        (MIXTRAL | {"ep": "3"}, "ep 3 does not divide tp · dp = 2"),
        ({}, "unknown engine"),
    ],
)
def test_rows_that_cannot_be_told(row: dict[str, str], told: str) -> None:
    with pytest.raises(SkipError, match=told):
        row_deployment(row, NONE)


@pytest.mark.parametrize(("accelerators", "number"), [("8", 4), ("", 1), ("1", 1), ("7", 3)])
def test_replicas_are_whole(accelerators: str, number: int) -> None:
    assert replicas(SATURATED | {"n_acc": accelerators}, row_deployment(SATURATED, NONE)) == number
