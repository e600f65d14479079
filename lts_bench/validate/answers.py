"""A folder of measured tables, all answered: what the accuracy page is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lts_bench.specs.failure import InputError
from lts_bench.validate import static, throughput
from lts_bench.validate.kernel_tables import LATENCY
from lts_bench.validate.kernels import predict_kernels
from lts_bench.validate.performance import load_kind
from lts_bench.validate.serving import predict_serving, scored
from lts_bench.validate.table import Prediction, Row, Table, measured, predict_each, read_table

SERVING = "e2e/silicon_agg.csv"
PERFORMANCE: Mapping[str, tuple[str, ...]] = {
    "e2e/trtllm.csv": ("out_tok_s", "ttft_ms"),
    "e2e/fastertransformer.csv": ("latency_s",),
}
"""Tables of performance and the columns that were measured; others follow from these."""


class Pair(NamedTuple):
    """A measured value with its prediction.

    Attributes:
        group: what the prediction is of, such as (chip, kernel, dtype).
    """

    row: Row
    group: tuple[str, ...]
    truth: float
    predicted: float


@dataclass(frozen=True)
class Answered:
    """Rows of one table and one kind with their predictions.

    Attributes:
        name: the file below the data folder.
        kind: kernels, collectives, exchange, serving, throughput or static.
        columns: the measured columns that count.
    """

    name: str
    kind: str
    table: Table
    predictions: Sequence[Prediction]
    columns: tuple[str, ...]

    def pairs(self, column: str) -> list[Pair]:
        """What was measured in a column and could be predicted."""
        return [
            Pair(row, each.group, truth, each.values[column])
            for row, each in zip(self.table.rows, self.predictions, strict=True)
            if (truth := measured(row, column)) is not None and column in each.values
        ]

    @property
    def skipped(self) -> Counter[str]:
        """Rows without a prediction by reason."""
        return Counter(each.skipped for each in self.predictions if each.skipped)


def answer_folder(folder: Path) -> list[Answered]:
    """Answer every table of a folder: ``kernels/*.csv`` and three of ``e2e/``, models from ``models/``.

    Raises:
        InputError: if the folder holds something else.
    """
    models, files = folder / "models", sorted((folder / "kernels").glob("*.csv"))
    if not models.is_dir() or not files:
        raise InputError("must be a folder with kernels/*.csv, e2e/ and models/", field="DATA_DIR", value=str(folder))
    return [
        *(_kernels(file, folder) for file in files),
        _serving(folder, models),
        *(
            answered
            for name in PERFORMANCE
            for kind, predict in (("throughput", throughput.predict_row), ("static", static.predict_row))
            if (answered := _performance(folder, name, kind, predict, models)).table.rows
        ),
    ]


def _kernels(file: Path, folder: Path) -> Answered:
    table = read_table(file)
    predictions, columns = predict_kernels(table)
    kind = "collectives" if "busbw_GBps" in columns else "exchange" if "dispatch_us" in columns else "kernels"
    # The bandwidth of a collective follows from its time.
    counted = columns if kind == "exchange" else (LATENCY,)
    return Answered(file.relative_to(folder).as_posix(), kind, table, predictions, counted)


def _serving(folder: Path, models: Path) -> Answered:
    table = scored(read_table(folder / SERVING))
    return Answered(SERVING, "serving", table, predict_serving(table, models), ("tpot_ms", "ttft_ms"))


def _performance(
    folder: Path, name: str, kind: str, predict: Callable[[Row, Path], Prediction], models: Path
) -> Answered:
    table = read_table(folder / name)
    rows = tuple(row for row in table.rows if load_kind(row) == kind)
    answers = predict_each(rows, lambda row: predict(row, models))
    return Answered(name, kind, Table(table.source, table.columns, rows), answers, PERFORMANCE[name])
