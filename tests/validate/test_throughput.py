from __future__ import annotations

from pathlib import Path

import pytest
from measured_rows import BATCH, SATURATED, STRANGE

from lts_bench.validate.performance import row_deployment
from lts_bench.validate.table import SkipError, predict_each
from lts_bench.validate.throughput import predict_row

NONE = Path("nowhere")


def test_the_cache_is_full_and_every_sequence_gets_a_token_a_round() -> None:
    served = row_deployment(SATURATED, NONE)
    at = served.at(served.capacity)
    found = predict_row(SATURATED, NONE)
    assert found.values == {"out_tok_s": pytest.approx(served.capacity / (at.decode + at.waits * at.service))}
    assert found.group == ("llama-3.1-8b", "FP8")


def test_replicas_add_up() -> None:
    one, four = (predict_row(SATURATED | {"n_acc": n}, NONE).values["out_tok_s"] for n in ("2", "8"))
    assert four == pytest.approx(4 * one)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (BATCH, "not a maximum throughput: a static run"),
        (SATURATED | {"request_rate_qps": "1e9"}, "not a maximum throughput: a online run"),
        (SATURATED | {"model": "llama-3.1-405b", "n_acc": "1", "tp": "1"}, "exceed the memory"),
    ],
)
def test_rows_of_another_kind(row: dict[str, str], told: str) -> None:
    with pytest.raises(SkipError, match=told):
        predict_row(row, NONE)


def test_strange_cells_are_answered_or_skipped() -> None:
    rows = [SATURATED | {name: cell} for name in SATURATED for cell in STRANGE]
    answers = predict_each(rows, lambda row: predict_row(row, NONE))
    assert all(bool(each.values) != bool(each.skipped) for each in answers)
