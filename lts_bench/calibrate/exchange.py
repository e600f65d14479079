"""Refits the constants of an expert exchange to measured dispatches and combines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.calibrate.fit import rounded
from lts_bench.calibrate.regimes import fit_log, found, relative_error
from lts_bench.cost.exchange import DIRECTIONS, MODES, Direction
from lts_bench.cost.kernels import US
from lts_bench.specs.collectives import Exchange, ExpertExchange, Stage
from lts_bench.validate.collectives import Routing, routing_of, sent_bytes
from lts_bench.validate.table import measured

FloatArray = NDArray[np.float64]
Rows = Sequence[Mapping[str, str]]
LEAST = 1e-3
"""Where the logarithm of a constant that may be 0 ends."""


@dataclass(frozen=True)
class Samples:
    """Measured exchanges of one mode and direction.

    Attributes:
        routings: those of the rows, without repeats.
        routing: (rows,) index of a row's routing.
        sent: (rows,) bytes of a device's tokens, each counted once.
        seconds: (rows,) measured times.
    """

    routings: tuple[Routing, ...]
    routing: NDArray[np.int64]
    sent: FloatArray
    seconds: FloatArray

    @property
    def crosses(self) -> bool:
        """Whether any of the groups has several domains."""
        return any(each.group.domains > 1 for each in self.routings)

    def predicted(self, constants: Exchange, sms: int) -> FloatArray:
        """(rows,) seconds."""
        lines = np.array([each.regimes(constants, sms) for each in self.routings])[self.routing]
        time: FloatArray = (lines[..., 0] + self.sent[:, None] * lines[..., 1]).min(axis=1)
        return time


def fit_exchange(rows: Rows, known: ExpertExchange) -> tuple[ExpertExchange, float, list[dict[str, Any]]]:
    """Fit both modes and directions, beginning with the known constants; those that no row tells of stay.

    Returns:
        The constants, their relative error, and a report of each mode and direction.
    """
    report, ratios, modes = [], [], {}
    for mode in MODES:
        constants = getattr(known, mode)
        for way in DIRECTIONS:
            part = _samples([row for row in rows if row["mode"] == mode], way)
            if part is None:
                continue
            fitted = _fit(part, getattr(constants, way), constants.sms)
            constants = msgspec.structs.replace(constants, **{way: fitted})
            predicted = part.predicted(fitted, constants.sms)
            ratios.append(predicted / part.seconds)
            report.append(found("expert_exchange", f"{mode} {way}", part.seconds, predicted))
        modes[mode] = constants
    return ExpertExchange(**modes), relative_error(np.concatenate(ratios)), report


def _samples(rows: Rows, way: Direction) -> Samples | None:
    kept = [(row, time) for row in rows if (time := measured(row, f"{way}_us")) is not None]
    if not kept:
        return None
    all_routings = [routing_of(row) for row, _ in kept]
    routings: list[Routing] = []
    for each in all_routings:
        if each not in routings:
            routings.append(each)
    return Samples(
        tuple(routings),
        np.array([routings.index(each) for each in all_routings]),
        np.array([sent_bytes(row, way) for row, _ in kept]),
        np.array([time * US for _, time in kept]),
    )


def _fit(part: Samples, known: Exchange, sms: int) -> Exchange:
    start = np.log(np.maximum(_packed(known), LEAST))
    least, largest = _bounds(known)
    free = np.full(len(start), part.crosses) | ~_crossing(known)

    def constants(x: FloatArray) -> FloatArray:
        whole = start.copy()
        whole[free] = x
        return np.exp(whole)

    def predicted(x: FloatArray) -> FloatArray:
        return part.predicted(_unpacked(constants(x), known), sms)

    x = fit_log(predicted, part.seconds, start[None, free], (least[free], largest[free]))
    return _unpacked(np.array([rounded(each) for each in constants(x)]), known)


def _crossing(exchange: Exchange) -> NDArray[np.bool_]:
    """Which of the constants that ``_packed`` gives tell of several domains."""
    stages, crossings = len(exchange.regimes), len(exchange.crossing_efficiency)
    others = (exchange.bytes_per_s_per_sm is not None) + stages
    return np.array([False] + [True] * crossings + [False] * others + [True] * stages + [False] * (stages - 1))


def _packed(exchange: Exchange) -> FloatArray:
    """(constants,): shares, Gbytes/s of an SM, latencies, latencies per doubling, slowdowns but the last one."""
    stages = exchange.regimes
    per_sm = () if exchange.bytes_per_s_per_sm is None else (exchange.bytes_per_s_per_sm / 1e9,)
    return np.array(
        [
            exchange.efficiency,
            *exchange.crossing_efficiency,
            *per_sm,
            *(each.latency_us for each in stages),
            *(each.latency_per_doubling_us for each in stages),
            *(each.slowdown for each in stages[:-1]),
        ]
    )


def _bounds(exchange: Exchange) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the least and largest values of what ``_packed`` gives."""
    shares, stages = 1 + len(exchange.crossing_efficiency), len(exchange.regimes)
    others = (exchange.bytes_per_s_per_sm is not None) + 2 * stages
    least = [LEAST] * (shares + others) + [1.0] * (stages - 1)
    largest = [1.0] * shares + [1e4] * others + [10.0] * (stages - 1)
    return np.log(least), np.log(largest)


def _unpacked(constants: FloatArray, known: Exchange) -> Exchange:
    values = iter(constants.tolist())
    count = len(known.regimes)
    efficiency = next(values)
    crossing = tuple(next(values) for _ in known.crossing_efficiency)
    per_sm = None if known.bytes_per_s_per_sm is None else next(values) * 1e9
    latency, growth = ([next(values) for _ in range(count)] for _ in range(2))
    slowdown = [*values, 1.0]
    stages = tuple(Stage(*each) for each in zip(latency, growth, slowdown, strict=True))
    return Exchange(stages, efficiency, crossing, per_sm)
