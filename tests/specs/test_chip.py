from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from lts_bench.specs.chip import Chip, list_chips, load_chip, sparse_peaks
from lts_bench.specs.failure import InputError

DATASHEETS = Path(__file__).parents[3] / "shared/data/hardware/chips.csv"
IN_DATASHEETS = {
    "a100": "A100-80G SXM",
    "ascend-910c": "Ascend 910C (CloudMatrix384)",
    "b200": "B200 SXM",
    "b300": "B300 SXM",
    "gaudi3": "Gaudi 3",
    "gb200": "GB200 NVL72",
    "gb300": "GB300 NVL72",
    "gh200": "GH200 96GB",
    "h100": "H100 SXM",
    "h20": "H20 SXM",
    "h200": "H200 SXM",
    "h800": "H800 SXM",
    "l40s": "L40S",
    "mi300x": "MI300X",
    "tpu-v4": "TPU v4",
    "tpu-v5e": "TPU v5e",
    "tpu-v5p": "TPU v5p",
    "trainium2": "Trainium2",
}


@pytest.mark.parametrize("name", list_chips())
def test_built_in_chips_load_under_their_own_name(name: str) -> None:
    chip = load_chip(name)
    assert chip.name == name
    assert chip.hbm_bytes_usable == pytest.approx(chip.hbm_bytes, rel=0.08)
    assert sparse_peaks(chip) == []


@pytest.mark.skipif(not DATASHEETS.exists(), reason="the table of datasheets is not there")
@pytest.mark.parametrize("name", list_chips())
def test_figures_agree_with_the_datasheets(name: str) -> None:
    with DATASHEETS.open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == IN_DATASHEETS[name])
    chip = load_chip(name)
    assert chip.hbm_bytes == pytest.approx(float(row["hbm_gb"]) * 1e9, rel=0.02)
    assert chip.hbm_bytes_per_s == pytest.approx(float(row["hbm_gbps"]) * 1e9, rel=0.02)
    columns = {
        "bf16": "bf16_tflops_dense",
        "fp8": "fp8_tflops_dense",
        "fp4": "fp4_tflops_dense",
        "int8": "int8_tops_dense",
    }
    printed = {kind: float(row[column]) * 1e12 for kind, column in columns.items() if row[column]}
    ours = {kind: peak for kind, peak in chip.peak_flops_per_s.items() if kind in printed}
    assert ours == pytest.approx(printed, rel=0.02)


def write_chip(path: Path, change: str) -> Path:
    text = msgspec.yaml.encode(msgspec.to_builtins(load_chip("h100"))).decode()
    old, new = change.split(" -> ")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_a_chip_of_the_users_own_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    write_chip(tmp_path / "mine.yaml", "name: h100 -> name: mine")
    assert load_chip("mine.yaml", tmp_path / "cluster.yaml") == msgspec.structs.replace(load_chip("h100"), name="mine")


def test_capacity_left_out_of_usable_is_the_printed_one(tmp_path: Path) -> None:
    path = write_chip(tmp_path / "mine.yaml", "hbm_bytes_usable: 85500000000.0 -> hbm_bytes_usable: null")
    assert load_chip(str(path)).hbm_bytes_usable == 80e9


@pytest.mark.parametrize(("text", "size"), [("80e9", 80_000_000_000), ("85899345920", 85_899_345_920)])
def test_decimal_and_binary_gigabytes_are_told_apart(tmp_path: Path, text: str, size: int) -> None:
    path = write_chip(tmp_path / "mine.yaml", f"hbm_bytes: 80000000000.0 -> hbm_bytes: {text}")
    assert load_chip(str(path)).hbm_bytes == size


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "hbm_bytes: 80000000000.0 -> hbm_bytes: 80GiB",
            "hbm_bytes: must be a plain number without quotes, underscores",
        ),
        ("bf16: 989000000000000.0 -> tf32: 989e12", "peak_flops_per_s.tf32: unknown key"),
        ("bf16: 989000000000000.0 -> sparse: true", "peak_flops_per_s.sparse: unknown key"),
        ("bf16: 989000000000000.0 -> bf16: null", "peak_flops_per_s.bf16: required key is missing"),
        ("k_ns: 0.658 -> k_us: 0.658", "kernels.gemm.bf16.k_us: unknown key; did you mean 'k_ns'?"),
        ("cores: 132 -> cores: 0", "cores: must be >= 1"),
        ("compute_efficiency: 0.8096 -> compute_efficiency: 1.2", "compute_efficiency: must be <= 1"),
        ("roll_off: 2.567 -> roll_off: 0.5", "kernels.gemm.bf16.roll_off: must be >= 1"),
    ],
)
def test_bad_chips_are_refused(tmp_path: Path, change: str, told: str) -> None:
    path = write_chip(tmp_path / "mine.yaml", change)
    with pytest.raises(InputError) as caught:
        load_chip(str(path))
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["h100", "H100 SXM", "h100-sxm"])
def test_a_sparse_peak_of_a_known_device_is_warned_of(name: str) -> None:
    sparse = msgspec.structs.replace(load_chip("h100"), name=name, peak_flops_per_s={"bf16": 1979e12, "fp8": 1979e12})
    (warning,) = sparse_peaks(sparse)
    assert "bf16 1.979e+15" in warning
    assert "dense is 9.89e+14" in warning


def test_peaks_of_unknown_devices_are_believed() -> None:
    chip: Chip = msgspec.structs.replace(load_chip("h100"), name="h1000", peak_flops_per_s={"bf16": 1979e12})
    assert sparse_peaks(chip) == []


def test_unknown_chips_get_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean 'h100'"):
        load_chip("h10O")
