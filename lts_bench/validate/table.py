"""Tables of measurements: read, answered row by row, scored, and written with the predictions beside the rows."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lts_bench.results.store import write_output
from lts_bench.specs.failure import InputError

Row = Mapping[str, str]
REASON = "skipped_reason"
LARGEST = 1e18
"""A number beyond it, or below its inverse, is no size of anything; products of others are finite."""
SMALLEST_GROUP = 3
"""Rows below which ranks within a group say nothing."""


class SkipError(Exception):
    """Raised where a row cannot be predicted; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one row.

    Attributes:
        values: predicted value by the name of the measured column; empty where the row is skipped.
        group: what the row is compared within, such as (chip, kernel, dtype).
        skipped: why there is no prediction.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    group: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(frozen=True)
class Table:
    """A CSV file: ``rows`` map the columns to text."""

    source: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, str], ...]


def read_table(path: str | Path) -> Table:
    """Read a CSV file with a header.

    Raises:
        InputError: the file cannot be read, is empty, repeats a column, or a row has too few or too many cells.
    """
    source = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=source) from error
    except UnicodeDecodeError as error:
        raise InputError("cannot be read: not UTF-8", source=source) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise InputError(f"not a CSV table: {error}", source=source, field=f"line {reader.line_num}") from error
    if len(lines) < 2:
        raise InputError("must have a header and at least one row", source=source)
    columns = tuple(name.strip() for name in lines[0][1])
    _check_columns(columns, source)
    for number, cells in lines[1:]:
        if len(cells) != len(columns):
            rule = f"has {len(cells)} cells where the header has {len(columns)}"
            raise InputError(rule, source=source, field=f"line {number}")
    return Table(source, columns, tuple(dict(zip(columns, cells, strict=True)) for _, cells in lines[1:]))


def _check_columns(columns: Sequence[str], source: str) -> None:
    for name, count in Counter(columns).items():
        if count > 1:
            raise InputError("the column occurs twice", source=source, field=name)


def number(row: Row, column: str) -> float:
    """A positive number of a row, 1 / ``LARGEST`` to ``LARGEST``.

    Raises:
        SkipError: it is missing or something else.
    """
    value = measured(row, column)
    if value is None:
        text = row.get(column, "").strip()
        if not text:
            raise SkipError(f"{column} is missing")
        raise SkipError(f"{column} must be a positive number, {1 / LARGEST:g} to {LARGEST:g}, not {text!r}")
    return value


def measured(row: Row, column: str) -> float | None:
    """A positive number of a row, 1 / ``LARGEST`` to ``LARGEST``, or None where it has none."""
    try:
        value = float(row.get(column, ""))
    except ValueError:
        return None
    return value if 1 / LARGEST <= value <= LARGEST else None


def predict_each(rows: Iterable[Row], predict: Callable[[Row], Prediction]) -> list[Prediction]:
    """Predict row by row; a row that raises ``SkipError`` has its reason as the answer."""
    found = []
    for row in rows:
        try:
            found.append(predict(row))
        except SkipError as reason:
            found.append(Prediction(skipped=str(reason)))
    return found


def write_predictions(path: Path, table: Table, predictions: Sequence[Prediction], columns: Sequence[str]) -> None:
    """Write the rows in their order with ``X_predicted`` for each measured column X, and ``skipped_reason``.

    Args:
        path: written atomically.
        table: columns that an earlier call added are replaced.
        predictions: one a row.
        columns: the measured columns.

    Raises:
        InputError: the file cannot be written.
    """
    added = [*(f"{column}_predicted" for column in columns), REASON]
    kept = [name for name in table.columns if name not in added]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*kept, *added])
    for row, each in zip(table.rows, predictions, strict=True):
        shown = [_shown(each.values[column]) if column in each.values else "" for column in columns]
        writer.writerow([*(row[name] for name in kept), *shown, each.skipped])
    write_output(path, text.getvalue())


def _shown(value: float) -> str:
    """Six significant digits without an exponent."""
    return np.format_float_positional(value, precision=6, fractional=False, trim="-")


def summarise(table: Table, predictions: Sequence[Prediction], columns: Sequence[str]) -> dict[str, Any]:
    """Tell how well the predictions meet what was measured.

    Returns:
        ``rows``, ``predicted``, ``skipped`` {reason: rows}, ``errors`` {column: statistics} and ``groups``
        {column: {group: statistics}}. Rows without a measured value are predicted and not scored.
    """
    reasons = Counter(each.skipped for each in predictions if each.skipped)
    document: dict[str, Any] = {
        "rows": len(table.rows),
        "predicted": sum(bool(each.values) for each in predictions),
        "skipped": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        "errors": {},
        "groups": {},
    }
    for column in columns:
        pairs: dict[str, list[tuple[float, float]]] = {}
        for row, each in zip(table.rows, predictions, strict=True):
            truth = measured(row, column)
            if truth is not None and column in each.values:
                pairs.setdefault(" ".join(each.group), []).append((truth, each.values[column]))
        groups = {name: error_statistics(*zip(*pairs[name], strict=True)) for name in sorted(pairs)}
        everything = [pair for name in groups for pair in pairs[name]]
        if everything:
            within = _mean_within(groups)
            overall = error_statistics(*zip(*everything, strict=True))
            document["errors"][column] = overall | {"spearman_within_groups": within}
            document["groups"][column] = groups
    return document


def error_statistics(truth: Sequence[float], predicted: Sequence[float]) -> dict[str, Any]:
    """Median, mean and 90th percentile of the absolute error, median signed error (bias), all in %, and Spearman's rho.

    Spearman is None where fewer than three rows, or constant ones, have no order.
    """
    t, p = np.array(truth), np.array(predicted)
    error = 100 * (p / t - 1)
    return {
        "rows": len(t),
        "median_error_percent": float(np.median(np.abs(error))),
        "mean_error_percent": float(np.mean(np.abs(error))),
        "p90_error_percent": float(np.percentile(np.abs(error), 90)),
        "bias_percent": float(np.median(error)),
        "spearman": _spearman(t, p),
    }


def _spearman(truth: Any, predicted: Any) -> float | None:
    from scipy.stats import spearmanr

    if len(truth) < SMALLEST_GROUP or np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        return None
    return float(spearmanr(truth, predicted).statistic)


def _mean_within(groups: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Spearman's rho of the groups, weighted by their rows."""
    ranked = [(each["spearman"], each["rows"]) for each in groups.values() if each["spearman"] is not None]
    if not ranked:
        return None
    rho, rows = np.transpose(ranked)
    return float(np.average(rho, weights=rows))
