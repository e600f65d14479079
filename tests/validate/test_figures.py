from __future__ import annotations

from pathlib import Path

import pytest
from measured_rows import SERVED

from lts_bench.validate.answers import Answered, Pair
from lts_bench.validate.figures import (
    by,
    cell,
    collective_groups,
    exchange_groups,
    exchange_pairs,
    kernel_groups,
    serving_groups,
    twins,
)
from lts_bench.validate.kernels import predict_kernels
from lts_bench.validate.table import Prediction, Table

DECODE = "system,attn_dtype,kv_cache_dtype,batch_size,kv_len_tokens,num_heads,num_key_value_heads,head_dim,latency_us"
COLLECTIVE = "system,library,op_name,num_gpus,message_bytes,latency_us,busbw_GBps"
EXCHANGE = "system,library,mode,num_nodes,hidden_size,num_tokens_per_rank,topk,num_experts,sms,dispatch_us,combine_us"


def answered(kind: str, header: str, *lines: str) -> Answered:
    columns = tuple(header.split(","))
    table = Table("t.csv", columns, tuple(dict(zip(columns, line.split(","), strict=True)) for line in lines))
    predictions, measured = predict_kernels(table)
    return Answered("kernels/t.csv", kind, table, predictions, measured)


def sizes(groups: dict[str, list[Pair]]) -> dict[str, int]:
    return {name: len(pairs) for name, pairs in groups.items()}


def test_pairs_are_named_by_each_function_in_turn() -> None:
    pairs = [Pair({"x": x, "y": y}, (), 1, 1) for x, y in (("b", "2 "), ("a", "1"), ("b", "1"))]
    assert sizes(by(pairs, cell("x"), cell("y"))) == {"a": 1, "b": 2, "1": 2, "2": 1}
    assert list(by(pairs, cell("x"))) == ["a", "b"]


def test_rows_without_a_measured_or_a_predicted_value_are_no_pairs() -> None:
    found = answered("kernels", DECODE, *(f"{system},bfloat16,bfloat16,1,128,32,8,128,{time}"
                                          for system, time in (("h100", 9), ("h100", ""), ("abacus", 9))))  # fmt: skip
    assert [pair.truth for pair in found.pairs("latency_us")] == [9]
    assert found.skipped == {"unknown system 'abacus'": 1}


def test_kernels_and_attention_that_reads_much() -> None:
    # 2 · 8 heads · 128 wide · 2 bytes: 4,096 bytes a token, 24,415 of them are 100 MB.
    lines = [f"h100_sxm,bfloat16,bfloat16,1,{length},32,8,128,9" for length in (128, 24414, 24415)]
    found = sizes(kernel_groups([answered("kernels", DECODE, *lines)]))
    assert found == {
        "attention in decode, bfloat16, h100": 3,
        "attention in decode, bfloat16, h100, KV ≥ 100 MB": 1,
    }


def test_collectives_in_a_node_and_beyond_eager_apart() -> None:
    lines = [f"{system},{library},all_reduce,{n},1024,9,1" for system, library, n in (
        ("gb200", "nccl/2", 8), ("gb200", "nccl/2", 16), ("h100_sxm", "vllm/0.19.0/vLLM_custom_eager", 8),
        ("h100_sxm", "vllm/0.19.0/vLLM_custom_graph", 8))]  # fmt: skip
    assert sizes(collective_groups([answered("collectives", COLLECTIVE, *lines)])) == {
        "gb200, more than 8 devices": 1,
        "gb200, up to 8 devices": 1,
        "h100_sxm, up to 8 devices": 1,
        "h100_sxm, up to 8 devices, eager": 1,
    }


def test_equal_exchanges_of_two_systems_count_once() -> None:
    rest = "sglang/0.5.12,normal,1,7168,1024,8,256,20"
    table = answered("exchange", EXCHANGE, f"h100_sxm,{rest},158,307", f"h200_sxm,{rest},158,307",
                     f"h200_sxm,{rest},150,300")  # fmt: skip
    assert [pair.row["system"] for pair in exchange_pairs([table], "combine_us")] == ["h100_sxm", "h200_sxm"]
    assert sizes(exchange_groups([table])) == {
        f"{way}, normal, {system}": 1 for way in ("dispatch", "combine") for system in ("h100_sxm", "h200_sxm")
    }


def test_serving_runs_by_each_part_of_a_cell() -> None:
    rows = (SERVED, SERVED | {"config_name": "mixtral-8x7b", "engine": "trtllm"})
    table = Table("t", tuple(SERVED), rows)
    runs = Answered("e2e/t.csv", "serving", table, [Prediction({"tpot_ms": 5.0})] * 2, ("tpot_ms",))
    assert sizes(serving_groups(runs, "tpot_ms", Path("nowhere"))) == {
        "all": 2, "dense": 1, "mixture of experts": 1, "llama-3.1-8b": 1, "mixtral-8x7b": 1, "h100_sxm": 2,
        "trtllm": 1, "vllm": 1, "bf16": 2,
    }  # fmt: skip


def test_twins_differ_in_one_thing() -> None:
    rows = [SERVED | {"engine": engine, "engine_version": version, "tpot_ms": time} for engine, version, time in (
        ("vllm", "1", "10"), ("vllm", "1", "14"), ("vllm", "2", "16"), ("trtllm", "1", "6"))]  # fmt: skip
    rows += [SERVED | {"engine": "sglang", "osl_tokens": "7"}, SERVED | {"engine": "sglang", "tpot_ms": ""}]
    table = Table("t", tuple(SERVED), tuple(rows))
    # vLLM's runs in the median of both versions: 14; of the first: 12.
    assert twins(table, ("engine",)) == {"trtllm and vllm": [pytest.approx(100 * (14 / 6 - 1))]}
    assert twins(table, ("engine", "engine_version")) == {"vllm 1 and vllm 2": [pytest.approx(100 * (16 / 12 - 1))]}
