"""From a table of measured kernels to a chip with refitted constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.calibrate.fit import fit, held_out
from lts_bench.calibrate.priors import priors
from lts_bench.cost.kernels import compute_type, kernel_type
from lts_bench.specs.chip import Chip
from lts_bench.specs.failure import InputError
from lts_bench.specs.formats import WeightFormat
from lts_bench.validate.aliases import aliases, words
from lts_bench.validate.kernel_tables import LATENCY, Call, seconds, table_kind
from lts_bench.validate.table import Row, SkipError, Table, error_statistics, number

FloatArray = NDArray[np.float64]
BY_TYPE = ("gemm", "experts")
ROWS_PER_CONSTANT = 2
US = 1e-6


@dataclass(frozen=True)
class Refit:
    """What became of one kernel.

    Attributes:
        kernel: the path of its constants, such as ``gemm.bf16``.
        constants: the new ones.
        rows: rows of the table.
        old: errors of the chip's constants before, see ``error_statistics``.
        new: errors after.
        held_out: errors on shapes that were held out; None where the table has one shape.
    """

    kernel: str
    constants: Mapping[str, float]
    rows: int
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    held_out: Mapping[str, Any] | None


@dataclass(frozen=True)
class _Measured:
    """Calls of one kernel in a table, with their times in seconds."""

    calls: tuple[Call, ...]
    truth: FloatArray

    def times(self, chip: Chip) -> FloatArray:
        """(calls,) closed form's answer; calls of one format are priced together."""
        found = np.empty(len(self.calls))
        formats: dict[WeightFormat, list[int]] = {}
        for place, call in enumerate(self.calls):
            formats.setdefault(call.weights, []).append(place)
        for weights, places in formats.items():
            calls = [self.calls[place] for place in places]
            sizes = {key: np.array([call.sizes[key] for call in calls]) for key in calls[0].sizes}
            found[places] = seconds(chip, calls[0].kernel, weights, sizes)
        return found


def calibrate(table: Table, chip: Chip) -> tuple[Chip, list[Refit]]:
    """Refit the constants of the kernels that a table measures; all others stay.

    Raises:
        InputError: the table is of no known kind, is not of this chip, or has too few rows for any kernel.
    """
    measured = _measured(table, chip)
    refits = []
    for (kernel, kind), each in sorted(measured.items()):
        if len(each.calls) < ROWS_PER_CONSTANT * len(priors(chip, kernel, kind)):
            continue
        chip, refit = _refit(chip, kernel, kind, each)
        refits.append(refit)
    if not refits:
        counts = ", ".join(f"{len(each.calls)} of {_path(*key)}" for key, each in sorted(measured.items())) or "none"
        rule = f"too few rows for a fit: at least {ROWS_PER_CONSTANT} for every constant of a kernel are needed"
        raise InputError(f"{rule}; there are {counts}", source=table.source)
    return chip, refits


def _path(kernel: str, kind: str) -> str:
    return f"{kernel}.{kind}" if kernel in BY_TYPE else kernel


def _measured(table: Table, chip: Chip) -> dict[tuple[str, str], _Measured]:
    """Calls by kernel and type of the constants; rows that cannot be read or lack a time are left out."""
    kind = table_kind(table)
    found: dict[tuple[str, str], list[tuple[Call, float]]] = {}
    for row in _rows_of(table, chip):
        try:
            call, time = kind.read(row), number(row, LATENCY) * US
        except SkipError:
            continue
        found.setdefault((call.kernel, _type(chip, call)), []).append((call, time))
    return {
        key: _Measured(tuple(call for call, _ in pairs), np.array([time for _, time in pairs]))
        for key, pairs in found.items()
    }


def _type(chip: Chip, call: Call) -> str:
    return kernel_type(compute_type(chip, call.weights), call.weights) if call.kernel in BY_TYPE else ""


def _rows_of(table: Table, chip: Chip) -> Sequence[Row]:
    """The rows of this chip; all of them where there is one system, whatever it is called."""
    names = {row.get("system", "") for row in table.rows}
    own = {name for name in names if name == chip.name or aliases().systems.get(words(name)) == chip.name}
    if not own and len(names) > 1:
        raise InputError(
            f"none of the systems is {chip.name}", source=table.source, field="system", legal=sorted(names)
        )
    return [row for row in table.rows if not own or row.get("system", "") in own]


def _refit(chip: Chip, kernel: str, kind: str, measured: _Measured) -> tuple[Chip, Refit]:
    known = priors(chip, kernel, kind)

    def model(constants: Mapping[str, float]) -> FloatArray:
        return measured.times(_with(chip, kernel, kind, constants))

    truth = measured.truth
    constants = fit(model, truth, known)
    outside = held_out(model, truth, known, [call.shape for call in measured.calls])
    predicted = model(constants)
    spread = float(np.percentile(np.abs((predicted if outside is None else outside) / truth - 1), 68))
    constants["relative_error"] = float(f"{spread:.2g}")
    refit = Refit(
        kernel=_path(kernel, kind),
        constants=constants,
        rows=len(truth),
        old=_errors(truth, measured.times(chip)),
        new=_errors(truth, predicted),
        held_out=None if outside is None else _errors(truth, outside),
    )
    return _with(chip, kernel, kind, constants), refit


def _errors(truth: FloatArray, predicted: FloatArray) -> dict[str, Any]:
    return error_statistics(truth.tolist(), predicted.tolist())


def _with(chip: Chip, kernel: str, kind: str, constants: Mapping[str, float]) -> Chip:
    """The chip with other constants; a type without its own begins with those that it runs as."""
    replace, kernels = msgspec.structs.replace, chip.kernels
    old = getattr(kernels, kernel)
    if kernel in BY_TYPE:
        new = {**old, kind: replace(old[kind if kind in old else "bf16"], **constants)}
    else:
        new = replace(old, **constants)
    return replace(chip, kernels=replace(kernels, **{kernel: new}))
