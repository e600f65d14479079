from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lts_bench.serving import trace_rows
from lts_bench.serving.read_trace import read_trace
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_csv import write_trace
from lts_bench.serving.trace_formats import FORMATS
from lts_bench.serving.trace_prefix import prefix_hit_tokens
from lts_bench.specs.failure import InputError

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
OWN = "arrival_s,prompt_tokens,output_tokens\n"
in_one_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)

requests = st.lists(
    st.tuples(st.integers(0, 10**7), st.integers(1, 5000), st.integers(1, 5000)), min_size=1, max_size=40
)


def read(path: Path, text: str, **options: Any) -> Trace:
    path.write_bytes(text.encode())
    return read_trace(path, **options)


def content(trace: Trace) -> list[Any]:
    blocks = trace.blocks and (trace.blocks.offsets.tolist(), trace.blocks.ids.tolist(), trace.blocks.block_tokens)
    sessions = None if trace.sessions is None else trace.sessions.tolist()
    return [trace.arrival_s.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), blocks, sessions]


def as_csv(rows: list[dict[str, Any]], names: list[str], end: str = "\n") -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def expected(rows: list[tuple[int, int, int]]) -> Trace:
    """Rows of (ms, prompt, output) as a trace."""
    ordered = sorted(rows, key=lambda row: row[0])
    ms, prompt, output = np.array(ordered, dtype=np.int64).T
    return Trace((ms - ms[0]) / 1000, prompt, output)


def in_unit(ms: int, unit: str | None) -> Any:
    if unit == "date":
        return str(np.datetime64("2024-05-10T00:00:00.000", "ms") + np.timedelta64(ms, "ms")).replace("T", " ") + "0000"
    return ms if unit == "ms" else f"{ms // 1000}.{ms % 1000:03}"


@pytest.mark.parametrize("family", FORMATS, ids=lambda family: family.name)
@pytest.mark.parametrize("as_json", [False, True])
@in_one_directory
@given(rows=requests)
def test_every_format_tells_the_same(
    tmp_path: Path, family: Any, as_json: bool, rows: list[tuple[int, int, int]]
) -> None:
    records = [
        {
            "timestamp" if family.timestamp else "arrival_s": in_unit(ms, family.timestamp),
            family.prompt: prompt,
            family.output: output,
            **dict.fromkeys(family.marks, 7),
        }
        for ms, prompt, output in rows
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    found = read(tmp_path / "trace", lines if as_json else as_csv(records, list(records[0])))
    assert np.allclose(found.arrival_s, expected(rows).arrival_s, rtol=0, atol=1e-9)
    assert found.prompt_tokens.tolist() == expected(rows).prompt_tokens.tolist()
    assert found.output_tokens.tolist() == expected(rows).output_tokens.tolist()


@in_one_directory
@given(
    rows=requests,
    names=st.permutations(["Timestamp", "Model", "Request tokens", "Response tokens", "Log Type"]),
    mark=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["\n", "\r\n"]),
    chunk=st.sampled_from([1, 3, 1024]),
)
def test_the_order_of_columns_and_the_encoding_of_lines_do_not_matter(
    tmp_path: Path, rows: list[tuple[int, int, int]], names: list[str], mark: str, end: str, chunk: int
) -> None:
    records = [
        {"Timestamp": ms, "Model": "m", "Request tokens": prompt, "Response tokens": output, "Log Type": 'a "b", c'}
        for ms, prompt, output in rows
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_rows, "ROWS_PER_CHUNK", chunk)
        found = read(tmp_path / "trace.csv", mark + as_csv(records, names, end), time_unit="ms")
    assert content(found) == content(expected(rows))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 20))
    gaps = draw(st.lists(st.floats(0, 1e4), min_size=n - 1, max_size=n - 1))
    prompt = np.array(draw(st.lists(st.integers(1, 100), min_size=n, max_size=n)))
    output = np.array(draw(st.lists(st.integers(1, 100), min_size=n, max_size=n)))
    sessions = draw(st.none() | st.lists(st.integers(-1, 3), min_size=n, max_size=n))
    return Trace(np.concatenate([[0.0], np.cumsum(gaps)]), prompt, output, None, sessions and np.array(sessions))


@in_one_directory
@given(trace=traces(), block_tokens=st.integers(1, 64), seed=st.integers(0, 9))
def test_what_is_written_is_read_again(tmp_path: Path, trace: Trace, block_tokens: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = [
        {
            "arrival_s": arrival,
            "prompt_tokens": prompt,
            "output_tokens": output,
            "session_id": "" if trace.sessions is None or trace.sessions[i] < 0 else f"s{trace.sessions[i]}",
            "hash_ids": " ".join(map(str, rng.integers(0, 5, rng.integers(0, -(-prompt // block_tokens) + 1)))),
            "block_tokens": block_tokens,
        }
        for i, (arrival, prompt, output) in enumerate(
            zip(trace.arrival_s.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
        )
    ]
    first = read(tmp_path / "made.csv", as_csv(records, list(records[0])))
    assert np.array_equal(first.arrival_s, trace.arrival_s)
    write_trace(tmp_path / "written.csv", first)
    again = read_trace(tmp_path / "written.csv")
    assert content(again) == content(first)
    write_trace(tmp_path / "again.csv", again)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "written.csv").read_bytes()


def test_rows_out_of_order_are_sorted_and_ties_keep_their_order(tmp_path: Path) -> None:
    trace = read(tmp_path / "trace.csv", OWN + "5,1,1\n3,2,1\n5,3,1\n4,4,1\n")
    assert trace.arrival_s.tolist() == [0, 1, 2, 2]
    assert trace.prompt_tokens.tolist() == [2, 4, 1, 3]
    assert trace.warnings == ("2 rows arrive before the request above them: sorted by arrival",)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,10", "must have 3 cells, as the header has, not 2"),
        ("1,10,1,1", "must have 3 cells, as the header has, not 4"),
        ("1,ten,1", "prompt_tokens: must be a whole number from 0 to 2147483647 (got 'ten')"),
        ("1,10,", "output_tokens: must be a whole number from 0 to 2147483647 (got '')"),
        ("1,10.5,1", "prompt_tokens: must be a whole number"),
        ("1,-10,1", "prompt_tokens: must be a whole number"),
        ("1,10,nan", "output_tokens: must be a whole number"),
        ("1,10,1e99", "output_tokens: must be a whole number"),
        ("1," + "9" * 400 + ",1", "prompt_tokens: must be a whole number"),
        ("inf,10,1", "arrival_s: must be a number ≥ 0 (got 'inf')"),
        ("-1,10,1", "arrival_s: must be a number ≥ 0"),
        (",10,1", "arrival_s: must be a number ≥ 0"),
    ],
)
def test_a_bad_row_is_told_or_counted(tmp_path: Path, row: str, words: str) -> None:
    text = OWN + "\n0,7,1\n\n" + row + "\n9,8,1\n"
    with pytest.raises(InputError) as error:
        read(tmp_path / "trace.csv", text)
    assert "trace.csv: line 5" in str(error.value)
    assert words in str(error.value)
    trace = read(tmp_path / "trace.csv", text, skip_bad_rows=True)
    assert trace.prompt_tokens.tolist() == [7, 8]
    assert trace.skipped == {"bad_row": 1}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"timestamp": 1', "not valid JSON"),
        ("[1, 2]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ('{"timestamp": 1, "input_length": 3}', "output_length: must be a whole number"),
        ('{"timestamp": 1, "input_length": true, "output_length": 1}', "input_length: must be a whole number"),
        ('{"timestamp": 1, "input_length": [1], "output_length": 1}', "input_length: must be a whole number"),
        (
            '{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": [-1]}',
            "hash_ids: must be whole numbers",
        ),
        (
            '{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": [1.5]}',
            "hash_ids: must be whole numbers",
        ),
        ('{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": 5}', "hash_ids: must be whole numbers"),
        ('{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": "a b"}', "hash_ids: must be whole"),
    ],
)
def test_a_bad_line_of_json_is_told_or_counted(tmp_path: Path, line: str, words: str) -> None:
    good = '{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1]}\n'
    with pytest.raises(InputError) as error:
        read(tmp_path / "trace.jsonl", good + line + "\n" + good)
    assert "line 2" in str(error.value)
    assert words in str(error.value)
    trace = read(tmp_path / "trace.jsonl", good + line + "\n" + good, skip_bad_rows=True)
    assert len(trace) == 2
    assert trace.skipped == {"bad_row": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("\ufeff\r\n \n", "the file is empty"),
        (OWN, "has no requests"),
        ("timestamp,prompt_tokens,output_tokens\n", "has no requests"),
        ("[]", "has no requests"),
        ("{}\n", "no columns of prompt and output tokens"),
        ("{\n", "line 1: not valid JSON"),
        ("[1", "not a JSON list"),
        ("timestamp,prompt_tokens,output_tokens\n0,1,1\n", "timestamp: the name does not tell the unit"),
        ("prompt_tokens,output_tokens\n1,1\n", "no column of arrival times among 'prompt_tokens', 'output_tokens'"),
        ("arrival_s,timestamp_ms,prompt_tokens,output_tokens\n0,0,1,1\n", "more than one column of arrival times"),
        ("arrival_s,prompt_tokens,prompt tokens,output_tokens\n0,0,1,1\n", "prompt tokens: the column occurs twice"),
        ("arrival_s,isl,input_length,input_toks,output_length,output_toks\n0,0,1,1\n", "more than one pair"),
        (OWN + '0,"1,1\n', "line 2: not a CSV table"),
        (OWN.replace("\n", ",block_tokens\n") + "0,1,1,16\n0,1,1,32\n", "line 3, block_tokens"),
        (OWN.replace("\n", ",block_tokens\n") + "0,1,1,0\n", "line 2, block_tokens"),
    ],
)
def test_files_that_are_no_trace(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path / "trace.csv", text)
    assert "trace.csv" in str(error.value)
    assert words in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "Is a directory"), (tmp_path / "none.csv", "No such file")):
        with pytest.raises(InputError, match=words):
            read_trace(path)
    (tmp_path / "utf16.csv").write_bytes(OWN.encode("utf-16"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_trace(tmp_path / "utf16.csv")
    with pytest.raises(InputError, match="no column 'model'"):
        read(tmp_path / "trace.csv", OWN + "0,1,1\n", model="gpt")


def test_a_json_list_and_whole_numbers_in_other_forms(tmp_path: Path) -> None:
    records = [{"arrival_ms": 1e3, "prompt_tokens": 10.0, "output_tokens": "3.0"}]
    trace = read(tmp_path / "trace.json", json.dumps(records, indent=1))
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([10], [3])


def test_nanoseconds_since_1970_keep_their_digits(tmp_path: Path) -> None:
    rows = "1715299200000000001,1,1\n1715299200000000004,1,1\n"
    trace = read(tmp_path / "trace.csv", "timestamp_ns,input_toks,output_toks\n" + rows)
    assert trace.arrival_s.tolist() == [0, 3e-9]


def test_bailian_has_the_names_of_mooncake_but_seconds_and_small_blocks(tmp_path: Path) -> None:
    row = '{"chat_id": 1, "timestamp": %s, "input_length": 33, "output_length": 3, "hash_ids": [%s]}\n'
    trace = read(tmp_path / "trace.jsonl", row % (61.114, "4, 5, 6") + row % (62.5, "4, 9"))
    assert trace.arrival_s.tolist() == [0, 62.5 - 61.114]
    assert trace.blocks is not None
    assert trace.blocks.block_tokens == 16
    assert prefix_hit_tokens(trace).tolist() == [0, 16]


def test_hash_ids_of_64_bits_and_too_many(tmp_path: Path) -> None:
    header = "timestamp_ms,input_length,output_length,hash_ids\n"
    text = header + f'0,513,1,"[{2**64 - 1}, {2**32}]"\n1,512,1,{2**64 - 1} 0 1\n2,1,1,\n'
    trace = read(tmp_path / "trace.csv", text)
    assert trace.blocks is not None
    assert trace.blocks.offsets.tolist() == [0, 2, 3, 3]
    assert trace.blocks.ids.tolist() == [3, 2, 3]
    assert trace.warnings == ("1 rows have more hash ids than blocks of 512 tokens: the surplus is ignored",)
    assert read(tmp_path / "trace.csv", text, block_tokens=64).warnings == ()
    with pytest.raises(InputError, match="block_tokens: must be ≥ 1"):
        read(tmp_path / "trace.csv", text, block_tokens=0)


def test_first_ids_only_tell_nothing(tmp_path: Path) -> None:
    text = "timestamp_ms,input_length,output_length,n_blocks,hash_ids_first8\n0,6758,500,14,0 1 2 3 4 5 6 7\n"
    assert read(tmp_path / "trace.csv", text).blocks is None


def test_lengths_alone_arrive_at_once_if_that_will_do(tmp_path: Path) -> None:
    text = "num_prefill_tokens,num_decode_tokens,pd_ratio\n3772,54,69.9\n2015,156,12.9\n"
    trace = read(tmp_path / "trace.csv", text, needs_arrivals=False)
    assert trace.prompt_tokens.tolist() == [3772, 2015]
    assert trace.arrival_s.tolist() == [0, 0]
    assert trace.warnings == ("no column of arrival times: all 2 requests arrive at once",)


@pytest.mark.skipif(not TRACES.exists(), reason="the heads of real traces are not here")
@pytest.mark.parametrize(
    ("name", "count", "duration_s"),
    [
        ("azure_llm_2023_code.head2000.csv", 2000, 853.0793470),
        ("azure_llm_2023_conv.head2000.csv", 2000, 424.2594570),
        ("mooncake_fast25_conversation.head2000.csv", 2000, 669.0),
        ("mooncake_fast25_synthetic.head300.jsonl", 300, 86.79),
        ("vidur_arxiv_summarization_stats_llama2_tokenizer_filtered_v2.head2000.csv", 2000, 0),
        ("sharegpt-qwen3-32b-300-sps10.csv", 300, 29.136836395),
    ],
)
def test_heads_of_real_traces(name: str, count: int, duration_s: float) -> None:
    trace = read_trace(TRACES / name, needs_arrivals=False)
    assert len(trace) == count
    assert trace.duration_s == pytest.approx(duration_s, abs=1e-7)
    assert not trace.skipped
    assert bool(trace.warnings) == (duration_s == 0)


@pytest.mark.skipif(not TRACES.exists(), reason="the heads of real traces are not here")
@pytest.mark.parametrize("kind", ["code", "conv"])
def test_two_forms_of_one_trace_agree(kind: str) -> None:
    azure = read_trace(TRACES / f"azure_llm_2023_{kind}.head2000.csv")
    vidur = read_trace(TRACES / f"vidur_splitwise_{kind}.head2000.csv")
    assert np.array_equal(azure.prompt_tokens, vidur.prompt_tokens)
    assert np.array_equal(azure.output_tokens, vidur.output_tokens)
    assert np.allclose(azure.arrival_s, vidur.arrival_s, rtol=0, atol=1e-6)
