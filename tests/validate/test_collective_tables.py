from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lts_bench.validate.collectives import Library, library_of, predict
from lts_bench.validate.table import Row, error_statistics, read_table

KERNELS = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
measured_tables = pytest.mark.skipif(not KERNELS.is_dir(), reason="needs the measured tables beside the repository")
ROW = {
    "system": "h100_sxm",
    "library": "nccl/2.27.3",
    "op_name": "all_reduce",
    "num_gpus": "8",
    "message_bytes": "67108864",
    "latency_us": "322.9",
    "busbw_GBps": "363.7",
}
EXCHANGE = {
    "system": "h100_sxm",
    "library": "sglang/0.5.12",
    "mode": "normal",
    "num_nodes": "1",
    "hidden_size": "7168",
    "num_tokens_per_rank": "1024",
    "topk": "8",
    "num_experts": "256",
    "sms": "20",
    "dispatch_us": "158",
    "combine_us": "307",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nccl/2.23/NCCL", Library(None)),
        ("trtllm/1.3.0rc20/TRTLLM", Library("trtllm")),
        ("sglang/0.5.6.post2/TRTLLM", Library("trtllm")),
        ("trtllm/1.3.0rc20/TRTLLM_MNNVL_oneshot", Library("mnnvl")),
        ("vllm/0.19.0/vLLM_custom_graph", Library("vllm")),
        ("vllm/0.27.0/vLLM_custom_eager", Library("vllm", eager=True)),
        ("sglang/0.5.10/SGLang_CustomAllReduce_graph", Library("vllm")),
        ("sglang/0.5.14/SGLang_CustomAllReduce_eager", Library("sglang", eager=True)),
    ],
)
def test_library_of_a_row(text: str, expected: Library) -> None:
    assert library_of(text) == expected


def test_bandwidth_follows_from_the_time() -> None:
    answer = predict([ROW])[0]
    assert answer.group == ("h100_sxm", "all_reduce", "vendor")
    expected = 67108864 * 2 * 7 / 8 / (answer.values["latency_us"] * 1e-6) / 1e9
    assert answer.values["busbw_GBps"] == pytest.approx(expected)
    assert answer.values["latency_us"] == pytest.approx(322.9, rel=0.15)


def test_launches_outside_graphs_have_a_floor() -> None:
    small = ROW | {"message_bytes": "1024"}
    graph, eager = predict([small | {"library": f"vllm/0.19.0/vLLM_custom_{how}"} for how in ("graph", "eager")])
    assert graph.values["latency_us"] < 6 < 15 < eager.values["latency_us"]
    large = ROW | {"message_bytes": str(1 << 30)}
    graph, eager = predict([large | {"library": f"vllm/0.19.0/vLLM_custom_{how}"} for how in ("graph", "eager")])
    # The buffer is copied first: 0.7 ms measured.
    assert eager.values["latency_us"] - graph.values["latency_us"] == pytest.approx(710, rel=0.1)


def test_exchanges() -> None:
    answer = predict([EXCHANGE])[0]
    assert answer.values["dispatch_us"] == pytest.approx(158, rel=0.1)
    assert answer.values["combine_us"] == pytest.approx(307, rel=0.1)
    more = predict([EXCHANGE | {"sms": "24"}])[0]
    assert more.values["dispatch_us"] < answer.values["dispatch_us"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (ROW | {"system": "abacus"}, "unknown system 'abacus'"),
        (ROW | {"op_name": "broadcast"}, "unknown collective 'broadcast'"),
        (ROW | {"num_gpus": ""}, "num_gpus is missing"),
        (ROW | {"message_bytes": "-1"}, "message_bytes must be a positive number, 1e-18 to 1e+18, not '-1'"),
        (ROW | {"num_gpus": "12"}, "must fill whole domains of 8 devices"),
        (EXCHANGE | {"mode": "fast"}, "unknown mode 'fast'"),
        (EXCHANGE | {"system": "mi300x"}, "no expert exchange of mi300x is known"),
    ],
)
def test_rows_that_cannot_be_predicted(row: Row, told: str) -> None:
    answer = predict([row])[0]
    assert told in answer.skipped
    assert not answer.values


def errors(name: str, column: str) -> list[tuple[float, float]]:
    rows = read_table(KERNELS / name).rows
    answers = predict(rows)
    return [(float(row[column]), answer.values[column]) for row, answer in zip(rows, answers, strict=True)]


@measured_tables
@pytest.mark.parametrize("name", ["collectives.csv", "collectives_gb200_gb300_multinode_mnnvl.csv"])
def test_measured_collectives(name: str) -> None:
    found = error_statistics(*zip(*errors(name, "latency_us"), strict=True))
    assert found["median_error_percent"] < 8
    assert found["p90_error_percent"] < 40 if "mnnvl" in name else 25
    assert found["spearman"] > 0.98


@measured_tables
@pytest.mark.parametrize("column", ["dispatch_us", "combine_us"])
def test_measured_exchanges(column: str) -> None:
    truth, predicted = np.transpose(errors("ep_alltoall_deepep.csv", column))
    assert error_statistics(truth, predicted)["median_error_percent"] < 5
