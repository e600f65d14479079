"""Measured kernels and collectives against the closed forms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lts_bench.specs.chip import Chip
from lts_bench.specs.formats import WeightFormat
from lts_bench.validate.collectives import predict
from lts_bench.validate.kernel_tables import LATENCY, Call, TableKind, seconds, table_kind
from lts_bench.validate.measured import measured_cluster
from lts_bench.validate.table import Prediction, Row, SkipError, Table

COLLECTIVES = {
    ("op_name", "message_bytes"): (LATENCY, "busbw_GBps"),
    ("mode", "num_tokens_per_rank"): ("dispatch_us", "combine_us"),
}
"""Columns that tell a table of collectives, and what it measures."""


def predict_kernels(table: Table) -> tuple[list[Prediction], tuple[str, ...]]:
    """Predict every row of a table of kernels or collectives.

    Returns:
        The predictions in the order of the rows, and the measured columns.

    Raises:
        InputError: the table is of no known kind.
    """
    for marks, columns in COLLECTIVES.items():
        if set(marks) <= set(table.columns):
            return predict(table.rows), columns
    return _predict(table.rows, table_kind(table)), (LATENCY,)


def _predict(rows: Sequence[Row], kind: TableKind) -> list[Prediction]:
    """Calls of one kernel with one format on one chip are priced together."""
    found: list[Prediction] = [Prediction()] * len(rows)
    chips: dict[str, Chip] = {}
    together: defaultdict[tuple[str, str, WeightFormat], list[tuple[int, Call]]] = defaultdict(list)
    for place, row in enumerate(rows):
        try:
            chip, call = measured_cluster(row.get("system", ""), 1).chip, kind.read(row)
        except SkipError as reason:
            found[place] = Prediction(skipped=str(reason))
        else:
            chips[chip.name] = chip
            together[chip.name, call.kernel, call.weights].append((place, call))
    for (name, kernel, weights), calls in together.items():
        sizes = {key: np.array([call.sizes[key] for _, call in calls]) for key in calls[0][1].sizes}
        times = seconds(chips[name], kernel, weights, sizes)
        for (place, _), time in zip(calls, times, strict=True):
            group = (name, kernel, rows[place][kind.dtype].strip())
            found[place] = Prediction({LATENCY: float(time) * 1e6}, group)
    return found
