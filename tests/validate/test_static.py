from __future__ import annotations

from pathlib import Path

import pytest
from measured_rows import BATCH, SATURATED, STRANGE

from lts_bench.validate.performance import row_deployment
from lts_bench.validate.static import predict_row
from lts_bench.validate.table import SkipError, predict_each

NONE = Path("nowhere")


def test_a_batch_is_prefilled_and_decoded_to_its_end() -> None:
    at = row_deployment(BATCH, NONE, prompts=4).at(4)
    latency = at.prefill + 19 * at.decode
    found = predict_row(BATCH, NONE).values
    assert found["latency_s"] == pytest.approx(latency)
    assert found["ttft_ms"] == pytest.approx(1e3 * at.prefill)
    assert found["out_tok_s"] == pytest.approx(4 * 20 / latency)


def test_one_token_is_the_prefill() -> None:
    found = predict_row(BATCH | {"osl": "1"}, NONE).values
    assert found["latency_s"] == pytest.approx(found["ttft_ms"] / 1e3)


def test_larger_batches_take_longer_but_less_than_one_after_the_other() -> None:
    one, four = (predict_row(BATCH | {"batch": n}, NONE).values["latency_s"] for n in ("1", "4"))
    assert one < four < 4 * one


def test_rows_of_another_kind() -> None:
    with pytest.raises(SkipError, match="not a static batch: a throughput run"):
        predict_row(SATURATED, NONE)


def test_strange_cells_are_answered_or_skipped() -> None:
    rows = [BATCH | {name: cell} for name in BATCH for cell in STRANGE]
    answers = predict_each(rows, lambda row: predict_row(row, NONE))
    assert all(bool(each.values) != bool(each.skipped) for each in answers)
