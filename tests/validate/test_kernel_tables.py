from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lts_bench.cost.kernels import gemm_rate, prefill_attention_seconds
from lts_bench.specs.chip import load_chip
from lts_bench.specs.failure import InputError
from lts_bench.specs.quantization import FORMATS
from lts_bench.validate.kernel_tables import KINDS
from lts_bench.validate.kernels import predict_kernels
from lts_bench.validate.table import Table

GEMM = ("system", "gemm_dtype", "m_tokens", "n_out", "k_in")
CONTEXT = ("system", "attn_dtype", "batch_size", "seq_len_tokens", "num_heads", "num_key_value_heads", "head_dim")
DECODE = ("system", "attn_dtype", "kv_cache_dtype", "batch_size", "kv_len_tokens", "num_heads", "num_key_value_heads",
          "head_dim")  # fmt: skip
MLA = ("system", "phase", "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "kv_len_tokens")
MOE = ("system", "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
       "moe_ep_size")  # fmt: skip


def table(columns: tuple[str, ...], *lines: str) -> Table:
    return Table("t.csv", columns, tuple(dict(zip(columns, line.split(), strict=True)) for line in lines))


def times(columns: tuple[str, ...], *lines: str) -> list[float]:
    predictions, measured = predict_kernels(table(columns, *lines))
    assert measured == ("latency_us",)
    return [each.values["latency_us"] for each in predictions]


def test_gemm_rows() -> None:
    one = [np.array([x]) for x in (128.0, 1024.0, 8192.0, 1024 * 8192 * 2.0)]
    bf16 = gemm_rate(load_chip("h100"), FORMATS["bf16"]).seconds(*one)[0]
    fp8 = gemm_rate(load_chip("h100"), FORMATS["fp8"])
    one[3] = one[3] / 2
    unfused = fp8.seconds(*one)[0] + fp8.quantisation_seconds(one[0], one[2])[0]
    found = times(GEMM, "H100_SXM bfloat16 128 1024 8192", "h100_sxm fp8 128 1024 8192")
    assert found == pytest.approx([bf16 * 1e6, unfused * 1e6])


def test_context_attention_rows() -> None:
    chip = load_chip("b200")
    one = np.array([1024.0])
    expected = prefill_attention_seconds(
        chip,
        chip.kernels.prefill_attention,
        heads=np.array([4 * 32.0]),
        kv_heads=np.array([4 * 8.0]),
        queries=one,
        keys=one / 2,
        longest=one,
        width=256,
    )
    bf16, fp8 = times(CONTEXT, "b200_sxm bfloat16 4 1024 32 8 128", "b200_sxm fp8 4 1024 32 8 128")
    assert bf16 == pytest.approx(expected[0] * 1e6)
    assert fp8 < bf16


def test_decode_rows_read_the_cache_in_its_own_type() -> None:
    bf16, fp8 = times(DECODE, "h200_sxm bfloat16 bfloat16 64 32768 64 8 128", "h200_sxm bfloat16 fp8 64 32768 64 8 128")
    assert 1.9 < bf16 / fp8 < 2


def test_mla_rows_of_both_phases() -> None:
    context, decode = times(
        MLA, "gb200 context bfloat16 bfloat16 128 16 4096", "gb200 generation bfloat16 bfloat16 128 16 4096"
    )
    assert context > 50 * decode


def test_moe_rows_have_all_tokens_of_the_group() -> None:
    # 32 tokens, 8 each of 128 experts: 256 copies; on 16 ranks 16 copies for 8 experts, on one 256 for 128.
    spread, one = times(MOE, "h100_sxm bfloat16 32 2048 768 8 128 1 16", "h100_sxm bfloat16 32 2048 768 8 128 1 1")
    read = 2048 * 768 * 3 * 2 / (0.8971 * 3350e9) * 1e6
    assert one - spread == pytest.approx(120 * read, rel=0.1)
    # A rank has whole copies, and no more experts than it has.
    (few,) = times(MOE, "h100_sxm bfloat16 1 2048 768 8 128 1 64")
    assert few < spread


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("tpu bfloat16 1 2 3", "unknown system 'tpu'"),
        ("h100_sxm fp7 1 2 3", "unknown gemm_dtype 'fp7'"),
        ("h100_sxm fp8 0 2 3", "m_tokens must be a positive number, 1e-18 to 1e+18, not '0'"),
    ],
)
def test_rows_without_an_answer_tell_why(line: str, reason: str) -> None:
    predictions, _ = predict_kernels(table(GEMM, "h100_sxm fp8 1 2 3", line))
    assert predictions[0].values and not predictions[1].values
    assert predictions[1].skipped == reason


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "fp8", "fp8_block", "int8_wo", "int4_wo", "nvfp4", "w4afp8"])
@pytest.mark.parametrize("system", ["a100_sxm", "h20_sxm", "b300_sxm", "l40s"])
def test_every_format_has_an_answer_on_every_chip(system: str, dtype: str) -> None:
    assert times(GEMM, f"{system} {dtype} 128 1024 8192")[0] > 0
    assert times(MOE, f"{system} {dtype} 32 2048 768 8 128 1 16")[0] > 0


def test_unknown_tables_name_the_nearest_kind() -> None:
    with pytest.raises(InputError, match=r"nearest is GEMM, whose columns k_in are missing; legal: GEMM, context"):
        predict_kernels(table(GEMM[:-1], "h100_sxm fp8 1 2"))


def test_kinds_are_told_apart_by_their_columns() -> None:
    for kind in KINDS:
        assert [each.name for each in KINDS if set(each.columns) <= set(kind.columns)] == [kind.name]


def validate(path: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lts_bench", "validate", "kernels", str(path), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_keeps_rows_and_columns(tmp_path: Path) -> None:
    given, out = tmp_path / "t.csv", tmp_path / "out.csv"
    given.write_text(
        "note,system,gemm_dtype,m_tokens,n_out,k_in,latency_us\n"
        "first,h100_sxm,bfloat16,1,1024,8192,10.463\nsecond,nothing,bfloat16,1,1024,8192,9\n"
        "third,h100_sxm,bfloat16,8,1024,8192,\n"
    )
    told = validate(given, "--out", out)
    assert told.returncode == 0, told.stderr
    assert "2 of 3 rows predicted" in told.stdout and "skipped 1: unknown system 'nothing'" in told.stdout
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["note"] for row in rows] == ["first", "second", "third"]
    assert [bool(row["latency_us_predicted"]) for row in rows] == [True, False, True]
    assert [row["skipped_reason"] for row in rows] == ["", "unknown system 'nothing'", ""]
    document = json.loads(validate(given, "--json").stdout)
    assert document["errors"]["latency_us"]["rows"] == 1
    assert document["skipped"] == {"unknown system 'nothing'": 1}


def test_bad_input_ends_with_exit_code_2(tmp_path: Path) -> None:
    for text in ("a,b\n1,2\n", "a\n"):
        (tmp_path / "t.csv").write_text(text)
        told = validate(tmp_path / "t.csv", "--out", tmp_path / "out.csv")
        assert told.returncode == 2
        assert told.stderr.count("\n") == 1 and told.stderr.startswith("error: ")
        assert not (tmp_path / "out.csv").exists()
