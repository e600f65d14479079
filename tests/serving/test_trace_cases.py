"""What real traces have led other readers to get wrong: each file here with its right outcome."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lts_bench.serving.read_trace import read_trace
from lts_bench.serving.trace import PrefixBlocks, Trace
from lts_bench.serving.trace_prefix import prefix_hit_tokens
from lts_bench.serving.trace_summary import NO_HASH_IDS, trace_document
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import Slo, parse_workload

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
BURSTGPT_3 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str, **options: Any) -> Trace:
        path = tmp_path / "trace.csv"
        path.write_bytes(text.encode())
        return read_trace(path, **options)

    return read


def refused(read: Any, text: str, *words: str, **options: Any) -> None:
    with pytest.raises(InputError) as error:
        read(text, **options)
    for word in ("trace.csv", *words):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_azure_2024_dates_with_a_zone_and_without_a_fraction(read: Any) -> None:
    trace = read(AZURE + "2024-05-10 00:00:00+00:00,10,5\n2024-05-10 00:00:01.250000+00:00,10,5\n")
    assert trace.arrival_s.tolist() == [0.0, 1.25]


def test_azure_2023_dates_keep_their_seven_digits(read: Any) -> None:
    trace = read(AZURE + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:03.9799601,3180,8\n")
    assert trace.arrival_s.tolist() == [0.0, 1e-7]


def test_zones_are_told_apart(read: Any) -> None:
    rows = "2024-05-10T02:00:00+02:00,1,1\n2024-05-10T00:00:01Z,1,1\n2024-05-09 19:00:02-0500,1,1\n"
    assert read(AZURE + rows).arrival_s.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("skip", [True, False])
def test_dates_with_and_without_a_zone_do_not_mix(read: Any, skip: bool) -> None:
    rows = "2024-05-10 00:00:00+00:00,10,5\n2024-05-10 00:00:01.25,10,5\n"
    refused(read, AZURE + rows, "line 3", "TIMESTAMP", "time zone", "2024-05-10 00:00:01.25", skip_bad_rows=skip)


def test_burstgpt(read: Any) -> None:
    rows = "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n"
    trace = read(BURSTGPT + rows)
    assert trace.arrival_s.tolist() == [0.0, 40.0]
    assert trace.prompt_tokens.tolist() == [472, 1087]
    assert trace.output_tokens.tolist() == [18, 230]
    assert trace.warnings == ()
    assert read(BURSTGPT + rows, model="GPT-4").prompt_tokens.tolist() == [1087]
    refused(read, BURSTGPT + rows, "'gpt4'", "ChatGPT, GPT-4", model="gpt4")


def test_burstgpt_totals_that_do_not_add_up_are_counted(read: Any) -> None:
    trace = read(BURSTGPT + "5,ChatGPT,472,18,491,API log\n6,ChatGPT,1,1,,API log\n7,ChatGPT,1,1,2,API log\n")
    assert trace.warnings == ("2 rows have a total that is not prompt + output tokens",)


def test_burstgpt_with_sessions(read: Any) -> None:
    rows = "5,a7,1.5,ChatGPT,4,2,6,Conversation log\n6,,2,GPT-4,4,2,6,API log\n9,a7,1,ChatGPT,9,2,11,Conversation log\n"
    trace = read(BURSTGPT_3 + rows)
    assert trace.arrival_s.tolist() == [0, 1, 4]
    assert trace.sessions is not None
    assert trace.sessions.tolist() == [0, -1, 0]
    assert trace_document(trace)["sessions"] == 1


def test_failed_requests_of_burstgpt_have_no_response_and_are_left_out(read: Any) -> None:
    trace = read(BURSTGPT + "5,ChatGPT,472,0,472,API log\n6,GPT-4,10,3,13,API log\n7,GPT-4,0,3,3,API log\n")
    assert trace.prompt_tokens.tolist() == [10]
    assert trace.skipped == {"zero_output": 1, "zero_prompt": 1}
    refused(read, BURSTGPT + "5,ChatGPT,472,0,472,API log\n", "no requests", "zero_output 1")


def test_windows_of_one_length_differ_in_load() -> None:
    arrival_s = np.concatenate([np.linspace(0, 71_000, 2_470), np.linspace(72_000, 143_999, 228_334)])
    trace = Trace(arrival_s, *np.ones((2, len(arrival_s)), dtype=np.int64))
    first, second = (trace_document(trace.window(start, start + 72_000)) for start in (0, 72_000))
    assert first["requests"] == 2_470
    assert second["requests"] == 228_334
    assert first["requests_per_s"] == pytest.approx(2_470 / 71_000)
    assert second["peak_requests_per_s"] == 4


def test_mooncake_is_in_milliseconds(read: Any) -> None:
    rows = (
        '{"timestamp":0,"input_length":655,"output_length":52,"hash_ids":[0,1]}\n'
        '{"timestamp":1000,"input_length":10,"output_length":5,"hash_ids":[0]}\n'
    )
    trace = read(rows)
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    assert trace.blocks is not None
    assert trace.blocks.block_tokens == 512
    assert trace.blocks.offsets.tolist() == [0, 2, 3]
    assert trace.blocks.ids.tolist() == [0, 1, 0]
    assert read(rows, time_unit="s").arrival_s.tolist() == [0, 1000]


def test_units_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"time_unit.*minutes.*s, ms, us, ns"):
        read_trace(tmp_path / "any.csv", time_unit="minutes")


@pytest.mark.parametrize(("last_ms", "count", "warns"), [(999, 101, True), (999, 100, False), (1000, 101, False)])
def test_implausible_rates_are_told(read: Any, last_ms: int, count: int, warns: bool) -> None:
    header, row = "timestamp,input_length,output_length\n", "{},1,1\n"
    trace = read(header + "".join(row.format(round(i * last_ms / (count - 1))) for i in range(count)))
    assert [("implausibly" in line and "timestamp in ms" in line) for line in trace.warnings] == [True] * warns


def test_a_rate_beyond_any_deployment_is_told(read: Any) -> None:
    assert read("arrival_s,prompt_tokens,output_tokens\n0,1,1\n0.00001,1,1\n").warnings
    assert not read("arrival_s,prompt_tokens,output_tokens\n0,1,1\n0.0001,1,1\n").warnings


def test_a_byte_order_mark_and_crlf(read: Any) -> None:
    trace = read("\ufefftimestamp_ms,prompt_tokens,output_tokens\r\n0,1,1\r\n")
    assert (trace.arrival_s.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([0], [1], [1])


def test_an_unknown_header_is_told_with_what_would_be_known(read: Any) -> None:
    text = "when,prompt_token,answer\n0,1,1\n"
    refused(
        read,
        text,
        "'when', 'prompt_token', 'answer'",
        "did you mean 'prompt_tokens'?",
        "input_length with",
        "arrived_at",
    )
    refused(read, "0,1,1\n1,2,2\n", "'0', '1'", "contexttokens with generatedtokens")


def test_slo_keys_are_explicit() -> None:
    assert parse_workload({"isl": 1, "osl": 1, "slo": {"ttft_ms": 500, "tpot_ms": 50}}).slo == Slo(500, 50)
    for slo, word in (({"ttft": 0.5}, "ttft"), ({"tpot_ms": -1}, "tpot_ms"), ({"latency": 3}, "latency")):
        with pytest.raises(InputError, match=word) as error:
            parse_workload({"isl": 1, "osl": 1, "slo": slo})
        assert word == "tpot_ms" or error.value.legal == ("ttft_ms", "tpot_ms", "percentile")


def test_times_are_relative_and_divided_by_the_rate_scale(read: Any) -> None:
    trace = read("arrived_at,num_prefill_tokens,num_decode_tokens\n100.0,1,1\n101.0,1,1\n103.0,1,1\n")
    assert trace.scaled(2.0).arrival_s.tolist() == [0, 0.5, 1.5]
    for scale in (0, -1, math.nan, math.inf, 1e-320):
        with pytest.raises(InputError, match="rate_scale: must be a positive number"):
            trace.scaled(scale)


def test_all_at_once_has_no_rate(read: Any) -> None:
    trace = read("arrived_at,num_prefill_tokens,num_decode_tokens\n0,8000,1\n0,8000,1\n0,8000,1\n")
    document = trace_document(trace)
    assert document["requests"] == 3
    assert document["duration_s"] == 0
    assert all(document[key] is None for key in ("requests_per_s", "peak_requests_per_s", "interarrival_cv", "bursts"))


def test_shared_prefixes_are_never_invented(read: Any) -> None:
    trace = read(AZURE + "2024-05-10 00:00:00,10,5\n2024-05-10 00:00:01,10,5\n")
    assert trace.blocks is None
    assert prefix_hit_tokens(trace).tolist() == [0, 0]
    document = trace_document(trace)
    assert document["prefix"] == {"block_tokens": None, "hit_ratio": 0}
    assert document["notes"] == [NO_HASH_IDS]


@pytest.mark.parametrize(("prompt", "hit"), [(64, 64), (61, 61)])
def test_hits_are_at_most_the_prompt(prompt: int, hit: int) -> None:
    blocks = PrefixBlocks(np.array([0, 4, 8]), np.array([0, 1, 2, 3] * 2), block_tokens=16)
    trace = Trace(np.array([0.0, 1.0]), np.array([prompt] * 2), np.array([1, 1]), blocks)
    assert prefix_hit_tokens(trace).tolist() == [0, hit]
