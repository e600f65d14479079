from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from lts_bench.calibrate.chip_file import chip_yaml
from lts_bench.calibrate.kernels import calibrate
from lts_bench.specs.chip import Chip, load_chip
from lts_bench.specs.failure import InputError
from lts_bench.validate.table import Table, read_table

KERNELS = Path(__file__).parents[3] / "shared" / "data" / "kernels"
TABLES = ("gemm", "context_attention", "generation_attention", "mla", "moe")
H100 = load_chip("h100")
SHAPES = [(1024, 8192), (4096, 4096), (8192, 1024), (16384, 4096), (512, 512)]
TOKENS = (1, 32, 128, 512, 1024, 8192)


def gemm_chip(**changes: float) -> Chip:
    """H100 with other constants of 16-bit products."""
    replace, kernels = msgspec.structs.replace, H100.kernels
    gemm = {**kernels.gemm, "bf16": replace(kernels.gemm["bf16"], **changes)}
    return replace(H100, kernels=replace(kernels, gemm=gemm))


def gemm_table(chip: Chip, system: str = "mine", noise: float = 0.0) -> Table:
    """What a chip would measure."""
    c, random = chip.kernels.gemm["bf16"], np.random.default_rng(0)
    columns = ("system", "gemm_dtype", "m_tokens", "n_out", "k_in", "latency_us")
    rows = []
    for n, k in SHAPES:
        for m in TOKENS:
            compute = 2 * max(m, 64) * n * k / (c.compute_efficiency * 989e12)
            memory = 2 * (n * k + m * k + m * n) / (c.memory_efficiency * 3350e9)
            parts = np.array([compute, memory, c.k_ns * 1e-9 * k])
            time = c.floor_us + 1e6 * (parts**c.roll_off).sum() ** (1 / c.roll_off)
            cells = (system, "bfloat16", m, n, k, time * random.lognormal(0, noise))
            rows.append(dict(zip(columns, map(str, cells), strict=True)))
    return Table("mine.csv", columns, tuple(rows))


def test_known_constants_are_recovered_from_what_they_would_measure() -> None:
    truth = {"floor_us": 3.4, "k_ns": 0.5, "compute_efficiency": 0.7, "memory_efficiency": 0.88, "roll_off": 2.4}
    fitted, (refit,) = calibrate(gemm_table(gemm_chip(**truth)), H100)
    assert refit.kernel == "gemm.bf16" and refit.rows == len(SHAPES) * len(TOKENS)
    for name, value in truth.items():
        assert refit.constants[name] == pytest.approx(value, rel=0.06), name
    assert refit.new["median_error_percent"] < 1 < refit.old["median_error_percent"]
    assert fitted.kernels.gemm["fp8"] == H100.kernels.gemm["fp8"]
    assert fitted.kernels.experts == H100.kernels.experts


def test_the_error_is_that_of_shapes_held_out() -> None:
    _, (refit,) = calibrate(gemm_table(H100, noise=0.1), H100)
    assert 0.05 < refit.constants["relative_error"] < 0.2
    assert refit.held_out is not None
    assert refit.held_out["median_error_percent"] >= refit.new["median_error_percent"]


@pytest.mark.skipif(not KERNELS.is_dir(), reason="needs the measured tables beside the repository")
@pytest.mark.parametrize("chip", ["h100", "b200"])
@pytest.mark.parametrize("table", TABLES)
def test_built_in_constants_are_those_of_the_tables(chip: str, table: str) -> None:
    built_in = load_chip(chip)
    fitted, _ = calibrate(read_table(KERNELS / f"{table}_{chip}_sxm.csv"), built_in)
    new, old = (msgspec.to_builtins(each.kernels) for each in (fitted, built_in))
    for kernel in ("prefill_attention", "decode_attention", "latent_prefill", "latent_decode"):
        assert new[kernel] == pytest.approx(old[kernel], rel=0.01)
    for kernel in ("gemm", "experts"):
        for kind, constants in old[kernel].items():
            assert new[kernel][kind] == pytest.approx(constants, rel=0.01)


def test_a_type_without_constants_of_its_own_gets_them() -> None:
    chip = load_chip("b300")
    assert "int8" not in chip.kernels.gemm
    known = msgspec.structs.replace(chip, peak_flops_per_s={**chip.peak_flops_per_s, "int8": 4500e12})
    table = gemm_table(H100)
    rows = tuple(row | {"gemm_dtype": "int8"} for row in table.rows)
    fitted, _ = calibrate(Table("t", table.columns, rows), known)
    assert "int8" in fitted.kernels.gemm


def test_rows_of_other_systems_do_not_count() -> None:
    own, other = gemm_table(H100, "h100_sxm"), gemm_table(gemm_chip(floor_us=9.0), "b200_sxm")
    both = Table("t", own.columns, own.rows + other.rows)
    assert calibrate(both, H100)[0] == calibrate(own, H100)[0]
    with pytest.raises(InputError, match="none of the systems is a100"):
        calibrate(both, load_chip("a100"))


@pytest.mark.parametrize("kept", [0, 1, 9])
def test_too_few_rows_are_refused(kept: int) -> None:
    table = gemm_table(H100)
    rows = tuple(row if i < kept else row | {"latency_us": ""} for i, row in enumerate(table.rows))
    with pytest.raises(
        InputError, match=f"too few rows for a fit.*there are {f'{kept} of gemm.bf16' if kept else 'none'}"
    ):
        calibrate(Table("t", table.columns, rows), H100)


def test_a_chip_file_loads_as_the_chip(tmp_path: Path) -> None:
    fitted, refits = calibrate(gemm_table(gemm_chip(floor_us=3.3)), H100)
    text = chip_yaml(fitted, refits, "mine.csv", "h100")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert load_chip(tmp_path / "mine.yaml") == fitted
    assert "bf16: # fitted to mine.csv: 30 rows, median error" in text


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lts_bench", "calibrate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def write_csv(path: Path, table: Table) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, table.columns)
        writer.writeheader()
        writer.writerows(table.rows)
    return path


def test_the_command_writes_a_chip_and_tells_errors(tmp_path: Path) -> None:
    table, out = write_csv(tmp_path / "mine.csv", gemm_table(gemm_chip(floor_us=3.3))), tmp_path / "mine.yaml"
    out.write_text("something old")
    told = run(table, "--chip", "h100", "--out", out)
    assert told.returncode == 0, told.stderr
    assert "gemm.bf16" in told.stdout and "held out" in told.stdout
    assert load_chip(out).kernels.gemm["bf16"].floor_us == pytest.approx(3.3, rel=0.03)
    again = run(table, "--chip", out, "--out", out, "--json")
    (refit,) = json.loads(again.stdout)["kernels"].values()
    assert refit["old_errors"] == refit["new_errors"]  # the fit does not depend on where it began


@pytest.mark.parametrize(
    ("text", "chip", "told"),
    [
        ("a,b\n1,2\n", "h100", "is no table of kernels"),
        ("system,gemm_dtype,m_tokens,n_out,k_in,latency_us\nh100,fp8,1,2,3,4\n", "h100", "too few rows"),
        ("system,gemm_dtype,m_tokens,n_out,k_in,latency_us\nh100,fp8,1,2,3,4\n", "h10O", "did you mean 'h100'"),
    ],
)
def test_bad_input_ends_with_exit_code_2(tmp_path: Path, text: str, chip: str, told: str) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "out.yaml"
    table.write_text(text)
    done = run(table, "--chip", chip, "--out", out)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and told in done.stderr
    assert not out.exists()
