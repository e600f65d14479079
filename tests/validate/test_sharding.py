from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_programs import answered, collectives, program
from typer.testing import CliRunner

from lts_bench.cli import app
from lts_bench.specs.failure import InputError
from lts_bench.validate.sharding import answers

SHARED = Path(__file__).parents[3] / "shared"
CASES = SHARED / "data/sharding/cases.json"
CHECKER = SHARED / "tools/check_sharding.py"
T8 = {"t": 8}


@pytest.mark.skipif(not CASES.exists() or not CHECKER.exists(), reason="the measured cases are not in this checkout")
def test_every_measured_case_passes(tmp_path: Path) -> None:
    out = tmp_path / "answers.json"
    told = CliRunner().invoke(app, ["validate", "sharding", str(CASES), "--out", str(out)])
    assert told.exit_code == 0, told.output
    checked = subprocess.run([sys.executable, CHECKER, CASES, out], capture_output=True, text=True)
    assert checked.stdout.startswith("75/75 pass"), checked.stdout


def attention(x: str, wq: str, wkv: str, wo: str, out: str, pins: str = "", shape: str = "4,128,512,8,4,64") -> str:
    b, s, m, g, r, d = shape.split(",")
    q, k, v, o = ("q_", "k_", "v_", "o_") if pins else "qkvo"
    head, _, tail = pins.partition("|")
    return f"""X {b},{s},{m} {x}
        Wq {m},{g},{r},{d} {wq} W
        Wk {m},{g},{d} {wkv} W
        Wv {m},{g},{d} {wkv} W
        Wo {g},{r},{d},{m} {wo} W
        q = einsum:bsm,mgrd>bsgrd X Wq
        k = einsum:bsm,mgd>bsgd X Wk
        v = einsum:bsm,mgd>bsgd X Wv
        {head}
        s = einsum:bsgrd,bugd>bgrsu {q} {k}
        a = softmax:-1 s
        o = einsum:bgrsu,bugd>bsgrd a {v}
        {tail}
        y = einsum:bsgrd,grdm>bsm {o} Wo
        -> y {out}"""


def mlp(x: str, up: str, down: str, out: str, m: int = 256, d: int = 512, f: int = 2048) -> str:
    return f"""X {m},{d} {x}
        Wg {d},{f} {up} W
        Wu {d},{f} {up} W
        Wd {f},{d} {down} W
        g = einsum:md,df>mf X Wg
        gs = silu g
        u = einsum:md,df>mf X Wu
        h = mul gs u
        y = einsum:mf,fd>md h Wd
        -> y {out}"""


STREAM = 4 * 128 * 512 * 4


def test_heads_on_tensor_parallel_devices_need_one_all_reduce() -> None:
    heads = (".,.,.", ".,t,.,.", ".,t,.", "t,.,.,.")
    assert collectives(T8, attention(*heads, ".,.,.")) == [("all-reduce", 8, STREAM)]
    assert collectives(T8, attention(*heads, ".,t,.")) == [("reduce-scatter", 8, STREAM)]


def test_four_kv_heads_on_eight_devices_need_one_all_reduce_over_all() -> None:
    text = attention(".,.,.", ".,g,r,.", ".,g,.", "g,r,.,.", ".,.,.", shape="4,128,512,4,8,64")
    assert collectives({"g": 4, "r": 2}, text) == [("all-reduce", 8, STREAM)]


def test_ulysses_exchanges_queries_keys_values_and_outputs() -> None:
    pins = "q_ = reshard q @.,.,t,.,.\nk_ = reshard k @.,.,t,.\nv_ = reshard v @.,.,t,.|o_ = reshard o @.,t,.,.,."
    found = collectives(T8, attention(".,t,.", ".,.,.,.", ".,.,.", ".,.,.,.", ".,t,.", pins))
    assert [kind for kind, _, _ in found] == ["all-to-all"] * 4


def test_a_split_head_dimension_reduces_all_scores() -> None:
    text = attention(".,.,.", ".,.,.,t", ".,.,t", ".,.,t,.", ".,t,.")
    assert ("all-reduce", 8, 4 * 32 * 128 * 128 * 4) in collectives(T8, text)


def test_column_then_row_parallel_is_one_all_reduce() -> None:
    assert collectives(T8, mlp(".,.", ".,t", "t,.", ".,.")) == [("all-reduce", 8, 256 * 512 * 4)]


def test_sequence_parallel_stream_moves_the_same_bytes() -> None:
    split = answered(T8, mlp("t,.", ".,t", "t,.", "t,."))
    whole = answered(T8, mlp(".,.", ".,t", "t,.", ".,."))
    assert sorted(each["kind"] for each in split["collectives"]) == ["all-gather", "reduce-scatter"]
    assert split["wire_bytes_per_device"] == whole["wire_bytes_per_device"]


@pytest.mark.parametrize("mesh", [{"x": 4, "y": 2}, {"y": 2, "x": 4}, {"x": 2, "y": 4}])
def test_two_dimensional_weight_stationary_scatters_twice_and_gathers_once(mesh: dict[str, int]) -> None:
    hidden = 256 * (2048 // mesh["y"]) * 4
    found = collectives(mesh, mlp(".,x", "x,y", "y,x", ".,x"))
    assert found == sorted(
        [
            ("all-gather", mesh["x"], hidden),
            ("all-reduce", mesh["y"], 256 * (512 // mesh["x"]) * 4),
            *[("reduce-scatter", mesh["x"], hidden)] * 2,
        ]
    )


def test_flash_decoding_reduces_statistics_and_outputs() -> None:
    text = """Q 16,8,4,64 .,.,.,.
        K 16,1024,8,64 .,t,.,.
        V 16,1024,8,64 .,t,.,.
        s = einsum:bgrd,bugd>bgru Q K
        mx = max:-1 s
        sm = sub s mx
        e = exp sm
        l = sum:-1 e
        on = einsum:bgru,bugd>bgrd e V
        o = div on l
        -> o .,.,.,."""
    rows = 16 * 32 * 4
    assert collectives(T8, text) == [("all-reduce", 8, n) for n in (rows, rows, rows * 64)]


def test_experts_with_tensor_parallelism_exchange_and_reduce() -> None:
    text = """X 8,16,32,512 e,.,.,.
        W1 16,512,1024 e,.,t W
        W2 16,1024,512 e,t,. W
        xd = reshard X @.,e,.,.
        h = einsum:gecm,emf>gecf xd W1
        ha = silu h
        yd = einsum:gecf,efm>gecm ha W2 @.,e,.,.
        y = reshard yd @e,.,.,.
        -> y e,.,.,."""
    local = 8 * 16 * 32 * 512 * 4 // 4
    assert collectives({"e": 4, "t": 2}, text) == [("all-reduce", 2, local), *[("all-to-all", 4, local)] * 2]


def test_logits_on_the_vocabulary_need_two_statistics() -> None:
    text = "X 256,512 .,.\nW 512,4096 .,t W\nz = einsum:mk,kn>mn X W\np = softmax:-1 z\n-> p .,t"
    assert collectives(T8, text) == [("all-reduce", 8, 1024)] * 2


SPECS = st.sampled_from([".,.", "t,.", ".,t"])


@settings(max_examples=40, deadline=None)
@given(SPECS, SPECS, SPECS, SPECS, st.sampled_from([2, 4, 8]))
def test_flops_are_never_below_an_even_share(x: str, up: str, down: str, out: str, devices: int) -> None:
    found = answered({"t": devices}, mlp(x, up, down, out))
    assert found["matmul_flops_per_device"] * devices >= 6 * 256 * 512 * 2048


@settings(max_examples=40, deadline=None)
@given(SPECS, SPECS, SPECS, SPECS)
def test_memory_scales_with_the_bytes_of_an_element(x: str, up: str, down: str, out: str) -> None:
    halves = answered(T8, mlp(x, up, down, out), dtype="bf16")
    wholes = answered(T8, mlp(x, up, down, out))
    assert halves["argument_bytes_per_device"] * 2 == wholes["argument_bytes_per_device"]
    assert halves["output_bytes_per_device"] * 2 == wholes["output_bytes_per_device"]


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 16), st.sampled_from([2, 4, 8, 16]))
def test_a_megatron_layer_scales_as_it_must(m: int, d: int, f: int, devices: int) -> None:
    found = answered({"t": devices}, mlp(".,.", ".,t", "t,.", ".,.", m, d, f * devices))
    n = m * d * 4
    assert found["wire_bytes_per_device"] == pytest.approx(2 * n * (devices - 1) / devices)
    assert found["matmul_flops_per_device"] == 6 * m * d * f
    assert found["weight_bytes_per_device"] == 3 * d * f * 4


def test_one_device_communicates_nothing() -> None:
    assert answered({"t": 1}, mlp("t,.", ".,t", "t,.", ".,."))["collectives"] == []


def broken(**changes: Any) -> dict[str, Any]:
    data = program(T8, "X 256,512 .,t\nW 512,1024 t,. W\nY = einsum:mk,kn>mn X W\n-> Y .,.")
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = data
        for key in way:
            place = place[int(key) if key.isdigit() else key]
        place[int(last) if last.isdigit() else last] = value
    return data


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ops__0__op": "einsun"}, "did you mean 'einsum'"),
        ({"ops__0__eq": "mk,kn->mq"}, "distinct ones of the operands"),
        ({"ops__0__eq": "mk,n->mn"}, "each dimension of 'W'"),
        ({"ops__0__in": ["X"]}, "takes 2 operand"),
        ({"ops__0__in": ["X", "V"]}, "unknown operand"),
        ({"ops__0__spec": ["t"]}, "rank 2"),
        ({"inputs__X__spec": ["t", "t"]}, "axis occurs twice"),
        ({"inputs__X__spec": ["s", None]}, "unknown mesh axis"),
        ({"inputs__X__spec": ["t"]}, "rank 2"),
        ({"inputs__X__shape": [256, 0]}, ">= 1"),
        ({"inputs__W__shape": [500, 1024]}, "sizes of index 'k' differ"),
        ({"outputs__Z": None}, "no such value"),
        ({"outputs__Y": "t"}, "must be a list"),
        ({"mesh__t": 2.5}, "whole number"),
        ({"dtype": "f31"}, "unknown dtype"),
        ({"ops": None}, "required key is missing"),
    ],
)
def test_bad_programs_are_told_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as told:
        answers([{"id": "mine", "program": broken(**changes)}], "cases.json")
    assert str(told.value).startswith("cases.json: mine: ")
    assert "\n" not in str(told.value)


def test_bad_files_end_with_exit_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "cases.json"
    bad.write_text(json.dumps({"cases": [{"id": "a", "program": broken(dtype="f31")}]}))
    command = [sys.executable, "-m", "lts_bench", "validate", "sharding", str(bad), "--out", str(tmp_path / "out.json")]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1 and "unknown dtype" in told.stderr
    assert not (tmp_path / "out.json").exists()
