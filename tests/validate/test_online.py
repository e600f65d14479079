from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest

from lts_bench.validate.online import COLUMNS, predict_online
from lts_bench.validate.table import Row, read_table, summarise

TABLE = Path(__file__).parents[3] / "shared/data/e2e/trtllm.csv"
MODELS = TABLE.parents[1] / "models"

ROW = {
    "model": "LLaMA 3.1 8B", "accelerator": "H100 SXM 80GB", "n_acc": "1", "tp": "1", "pp": "1", "precision": "BF16",
    "isl": "467", "osl": "16", "request_rate_qps": "8.0", "batch": "", "software": "TensorRT-LLM 0.14",
}  # fmt: skip


def row(**changes: str) -> Row:
    return ROW | changes


def test_more_requests_take_longer(tmp_path: Path) -> None:
    found = predict_online([row(request_rate_qps=qps) for qps in ("2", "8", "32", "1e9")], tmp_path)
    for column in COLUMNS:
        values = [each.values[column] for each in found]
        assert all(low < high for low, high in pairwise(values))
    # All at once: most prompts wait for many others.
    assert found[3].values["ttft_ms"] > 20 * found[2].values["ttft_ms"]
    assert found[0].group == ("llama-3.1-8b", "h100-1", "467/16")


def test_same_rows_same_bits(tmp_path: Path) -> None:
    assert predict_online([row()], tmp_path)[0] == predict_online([row()], tmp_path)[0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"request_rate_qps": ""}, "not under an offered rate: a throughput run"),
        ({"request_rate_qps": "", "batch": "4"}, "not under an offered rate: a static run"),
        ({"request_rate_qps": "fast"}, "request_rate_qps must be a positive number"),
        ({"model": "Nobody 8B"}, "unknown model 'Nobody 8B'"),
        ({"isl": "2000000"}, "2000000 + 16 tokens do not fit the KV cache"),
    ],
)
def test_rows_that_cannot_be_predicted(tmp_path: Path, changes: dict[str, str], told: str) -> None:
    (found,) = predict_online([row(**changes)], tmp_path)
    assert found.skipped.startswith(told) and not found.values


@pytest.mark.skipif(not TABLE.is_file(), reason="the measured sweeps are not here")
def test_measured_sweeps() -> None:
    table = read_table(TABLE)
    found = predict_online(table.rows, MODELS)
    errors = summarise(table, found, COLUMNS)["errors"]
    assert errors["tpot_ms"]["rows"] == 36
    assert errors["tpot_ms"]["median_error_percent"] <= 15
    measured = [(each, one) for each, one in zip(table.rows, found, strict=True) if one.values]
    for _, sweep in groupby(measured, key=lambda pair: pair[1].group):
        rows, predictions = zip(*sweep, strict=True)
        truth = np.array([float(each["ttft_ms"]) for each in rows])
        predicted = np.array([each.values["ttft_ms"] for each in predictions])
        # The knee: where TTFT grows most from one rate to the next.
        assert np.argmax(truth[1:] / truth[:-1]) == np.argmax(predicted[1:] / predicted[:-1])
