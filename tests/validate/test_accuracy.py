from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from measured_rows import DATA, MODELS, measured_tables

from lts_bench.specs.failure import InputError
from lts_bench.validate import static, throughput
from lts_bench.validate.accuracy import differences, write_accuracy
from lts_bench.validate.answers import answer_folder
from lts_bench.validate.performance import load_kind
from lts_bench.validate.serving import predict_serving, summarise_serving
from lts_bench.validate.table import predict_each, read_table, summarise

SAMPLE = {
    "kernels/gemm_h100_sxm.csv": slice(0, 160, 40),
    "kernels/generation_attention_h100_sxm.csv": slice(0, 98, 24),
    "kernels/collectives.csv": slice(0, 6000, 1500),
    "kernels/ep_alltoall_deepep.csv": slice(0, 900, 300),
    "e2e/silicon_agg.csv": slice(0, 1026, 50),
    "e2e/trtllm.csv": slice(0, 383, 90),
    "e2e/fastertransformer.csv": slice(0, 216, 100),
}
"""Tables and which of their rows a small folder has."""


@measured_tables
def test_serving_runs_are_predicted_well() -> None:
    table = read_table(DATA / "e2e/silicon_agg.csv")
    found = summarise_serving(table, predict_serving(table, MODELS))
    tpot, ttft = found["errors"]["tpot_ms"], found["errors"]["ttft_ms"]
    assert found["predicted"] == found["rows"]
    assert tpot["median_error_percent"] < 11 and tpot["mean_error_percent"] < 16
    assert tpot["spearman_within_groups"] > 0.95
    assert ttft["median_error_percent"] < 34
    assert found["layout_choice"]["regret_percent"] < 10


@measured_tables
def test_saturated_engines_are_predicted_well() -> None:
    found = performance("trtllm.csv", "throughput")
    assert found["median_error_percent"] < 11 and found["mean_error_percent"] < 17


@measured_tables
def test_static_batches_are_predicted_well() -> None:
    assert performance("fastertransformer.csv", "static")["median_error_percent"] < 15


def performance(name: str, kind: str) -> dict[str, Any]:
    validator = {"throughput": throughput, "static": static}[kind]
    table = read_table(DATA / "e2e" / name)
    predictions = predict_each(table.rows, lambda row: validator.predict_row(row, MODELS))
    assert [bool(each.values) for each in predictions] == [load_kind(row) == kind for row in table.rows]
    column = validator.COLUMNS[0]
    errors: dict[str, Any] = summarise(table, predictions, [column])["errors"][column]
    return errors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with few rows of each table."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "models").symlink_to(MODELS)
    for name, some in SAMPLE.items():
        table = read_table(DATA / name)
        write(folder / name, table.columns, table.rows[some])
    return folder


def write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


@measured_tables
def test_a_page_is_what_its_folder_gives(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "accuracy.md"
    assert differences(folder, page) == [f"{page}: is missing"]
    write_accuracy(folder, page)
    text = page.read_text(encoding="utf-8")
    assert differences(folder, page) == []
    for name in ("kernels", "collectives", "serving", "performance"):
        assert f"(accuracy/{name}.png)" in text
        assert (tmp_path / "accuracy" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "| serving, TPOT | 21 | 0 |" in text
    page.write_text(text.replace("| serving, TPOT | 21 |", "| serving, TPOT | 22 |"), encoding="utf-8")
    changed = [line[:24] for line in differences(folder, page) if line.startswith(("-|", "+|"))]
    assert changed == ["-| serving, TPOT | 22 | ", "+| serving, TPOT | 21 | "]


@measured_tables
def test_a_folder_with_next_to_nothing_has_a_page(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("kernels/gemm_h100_sxm.csv", *(name for name in SAMPLE if name.startswith("e2e/"))):
        table = read_table(folder / name)
        where = "system" if "system" in table.columns else "accelerator"
        write(tmp_path / name, table.columns, [table.rows[0] | {where: "abacus"}])
    write_accuracy(tmp_path, tmp_path / "accuracy.md")
    assert "Spearman of – in the mean" in (tmp_path / "accuracy.md").read_text(encoding="utf-8")


@measured_tables
def test_tables_are_answered_by_kind(folder: Path) -> None:
    assert [(each.name.rpartition("/")[2], each.kind) for each in answer_folder(folder)] == [
        ("collectives.csv", "collectives"),
        ("ep_alltoall_deepep.csv", "exchange"),
        ("gemm_h100_sxm.csv", "kernels"),
        ("generation_attention_h100_sxm.csv", "kernels"),
        ("silicon_agg.csv", "serving"),
        ("trtllm.csv", "throughput"),
        ("trtllm.csv", "static"),
        ("fastertransformer.csv", "static"),
    ]


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a folder with kernels"):
        answer_folder(tmp_path)
    command = [sys.executable, "-m", "lts_bench", "validate", "report", str(tmp_path), "--out", str(tmp_path / "a.md")]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2 and told.stderr.startswith("error: DATA_DIR: ") and told.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
