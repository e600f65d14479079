"""Refits an engine's host constants to measured serving runs.

TPOT is affine in the host time of sequences and in the number of small kernels, and so is TTFT, these fixed, in the
time of requests: a prediction with all of them at zero and one at a unit of each say everything. The fit is robust, so
that one bad sweep does not move the constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.calibrate.fit import rounded
from lts_bench.calibrate.regimes import fit_log, found
from lts_bench.specs.engine import Engine
from lts_bench.specs.failure import InputError
from lts_bench.validate.measured import measured_engine
from lts_bench.validate.serving import predict_serving, scored
from lts_bench.validate.table import Row, SkipError, Table, measured

FloatArray = NDArray[np.float64]
Part = Literal["host", "requests"]

UNITS: Mapping[Part, Mapping[str, float]] = {
    "host": {"sequence_overhead_us": 10, "small_kernels_per_layer": 10},
    "requests": {"request_overhead_ms": 100, "prompt_token_overhead_us": 10, "burst": 0.2},
}
"""Constants of each part and a typical size, where the fit starts."""
COLUMN: Mapping[Part, str] = {"host": "tpot_ms", "requests": "ttft_ms"}
SHARED = "generic"
"""The profile whose host constants all engines share: it is fitted to the runs of all."""
FEWEST_ROWS = 10


def fit_engine(
    table: Table, engine: Engine, models: Path, parts: Sequence[Part]
) -> tuple[Engine, list[dict[str, Any]]]:
    """Fit one part after the other to the engine's own rows, those of all engines for ``generic``.

    Returns:
        The engine, and a report of every part: errors as fitted, and of models that the fit did not see.

    Raises:
        InputError: if there are too few rows.
    """
    report: list[dict[str, Any]] = []
    for part in parts:
        samples = Samples(table, engine, models, part)
        fitted = samples.fit()
        engine = msgspec.structs.replace(engine, **fitted)
        report += samples.errors(fitted)
    return engine, report


def _served_by(row: Row, engine: Engine) -> bool:
    try:
        return measured_engine(row.get("engine", "")).name == engine.name or engine.name == SHARED
    except SkipError:
        return False


class Samples:
    """Measured values of one column, and how the predictions depend on the constants of one part.

    Attributes:
        rows: what they are of.
        truth: (rows,) measured.
        constant: (rows,) predicted with all constants at zero.
        slopes: (rows, constants) what a unit of each adds.
    """

    def __init__(self, table: Table, engine: Engine, models: Path, part: Part) -> None:
        self.part, self.names, column = part, tuple(UNITS[part]), COLUMN[part]
        rows = [row for row in scored(table).rows if measured(row, column) and _served_by(row, engine)]
        chosen = Table(table.source, table.columns, tuple(rows))
        known = {name: getattr(engine, name) for each in UNITS for name in UNITS[each]}
        zero = known | dict.fromkeys(self.names, 0.0)
        answers = [predict_serving(chosen, models, zero | unit) for unit in ({}, *self._units())]
        kept = [index for index, each in enumerate(answers[0]) if each.values]
        if len(kept) < FEWEST_ROWS:
            rule = f"too few runs of {engine.name} to fit"
            raise InputError(rule, source=table.source, value=len(kept), legal=(f"{FEWEST_ROWS} or more",))
        predicted = np.array([[each[index].values[column] for index in kept] for each in answers])
        self.constant, self.slopes = predicted[0], (predicted[1:] - predicted[0]).T
        self.rows = tuple(rows[index] for index in kept)
        self.truth = np.array([float(row[column]) for row in self.rows])

    def _units(self) -> list[dict[str, float]]:
        return [{name: UNITS[self.part][name]} for name in self.names]

    def _predict(self, shares: FloatArray, rows: Any = slice(None)) -> FloatArray:
        predicted: FloatArray = self.constant[rows] + self.slopes[rows] @ shares
        return predicted

    def fit(self, rows: Any = slice(None)) -> dict[str, float]:
        """The constants, rounded to three digits."""
        start = np.ones((1, len(self.names)))
        bounds = np.zeros(len(self.names)), np.full(len(self.names), 100.0)
        shares = fit_log(lambda x: self._predict(x, rows), self.truth[rows], start, bounds)
        return {name: rounded(x * UNITS[self.part][name]) for name, x in zip(self.names, shares.tolist(), strict=True)}

    def at(self, constants: Mapping[str, float]) -> FloatArray:
        """(rows,) predictions by given constants."""
        return self._predict(np.array([constants[name] / UNITS[self.part][name] for name in self.names]))

    def held_out(self, column: str) -> FloatArray | None:
        """(rows,) predictions by constants fitted without the rows of the same cell; None where all have the same."""
        cells = np.array([row[column].strip() for row in self.rows])
        if len(set(cells)) < 2:
            return None
        unseen = np.empty_like(self.truth)
        for cell in sorted(set(cells)):
            inside = cells == cell
            unseen[inside] = self.at(self.fit(~inside))[inside]
        return unseen

    def errors(self, fitted: Mapping[str, float]) -> list[dict[str, Any]]:
        """Errors as fitted, and of every model by constants that were fitted without it."""
        lines = [found(COLUMN[self.part], "as fitted", self.truth, self.at(fitted))]
        unseen = self.held_out("config_name")
        if unseen is not None:
            lines.append(found(COLUMN[self.part], "models held out", self.truth, unseen))
        return lines
