"""Refits a cluster's collectives and expert exchange to measured tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.calibrate.exchange import fit_exchange
from lts_bench.calibrate.fit import rounded
from lts_bench.calibrate.regimes import fit_log, found, relative_error
from lts_bench.cost.collectives import Collective, device_rate
from lts_bench.cost.kernels import US
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.collectives import REGIMES, Collectives, CustomAllReduce, Regime
from lts_bench.specs.failure import InputError
from lts_bench.validate.collectives import KINDS, TOKENS, library_of
from lts_bench.validate.measured import measured_cluster
from lts_bench.validate.table import SkipError, measured

FloatArray = NDArray[np.float64]
Rows = Sequence[Mapping[str, str]]
STARTS = 12
LEAST_USE = 0.02
"""Share of the rows below which a regime is left out."""
SMALL_BYTES = 1 << 16
KIND_OF = {
    Collective.ALL_REDUCE: "all_reduce",
    Collective.REDUCE_SCATTER: "all_gather",
    Collective.ALL_GATHER: "all_gather",
    Collective.ALL_TO_ALL: "all_to_all",
}


@dataclass(frozen=True)
class Samples:
    """Measured collectives of one kind and library: (rows,) devices, bytes moved ÷ rate and time, both in seconds."""

    devices: FloatArray
    wire: FloatArray
    seconds: FloatArray


def fit_network(rows: Rows, cluster: Cluster) -> tuple[Cluster, list[dict[str, Any]]]:
    """Fit the constants of a cluster to the rows of systems with its chip or with the same constants.

    Args:
        rows: of tables of collectives, expert exchanges or both; equal rows of several systems count once.
        cluster: what no row tells of stays as it is there.

    Returns:
        The cluster with its new constants, and for each fit ``kind``, ``library``, ``rows``, ``median_error_percent``
        and ``p90_error_percent``.

    Raises:
        InputError: no row is of the cluster.
    """
    own = _own_rows(rows, cluster)
    if not own:
        raise InputError("no row of the table is of this cluster", field="cluster", value=cluster.name)
    report: list[dict[str, Any]] = []
    constants = _fit_collectives(own, cluster, report)
    exchanges = [row for row in own if TOKENS in row]
    if exchanges and constants.expert_exchange is not None:
        fitted, error, lines = fit_exchange(exchanges, constants.expert_exchange)
        errors = constants.relative_error | {"expert_exchange": rounded(error, 2)}
        constants = msgspec.structs.replace(constants, expert_exchange=fitted, relative_error=errors)
        report += lines
    return msgspec.structs.replace(cluster, collectives=constants), report


def _own_rows(rows: Iterable[Mapping[str, str]], cluster: Cluster) -> list[Mapping[str, str]]:
    """Rows of systems with the cluster's chip or its constants; those that differ in the system alone once."""
    kept: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
    for row in rows:
        try:
            there = measured_cluster(row.get("system", ""), 1)
        except SkipError:
            continue
        if there.chip.name == cluster.chip.name or there.collectives == cluster.collectives:
            kept.setdefault(tuple((key, row[key]) for key in sorted(row) if key != "system"), row)
    return list(kept.values())


def _fit_collectives(rows: Rows, cluster: Cluster, report: list[dict[str, Any]]) -> Collectives:
    known = cluster.collectives
    vendor: dict[str, Any] = {}
    custom = dict(known.custom_all_reduce)
    ratios: dict[str, list[FloatArray]] = {}
    for (kind, name), part in sorted(_parts(rows, cluster).items()):
        regimes, predicted = _fit_regimes(part)
        report.append(found(kind, name or "vendor", part.seconds, predicted))
        ratios.setdefault(kind, []).append(predicted / part.seconds)
        if name:
            before = custom.get(name) or CustomAllReduce(regimes, cluster.scale_up.node_devices)
            custom[name] = msgspec.structs.replace(before, regimes=regimes)
        else:
            vendor[kind] = regimes
    for name, floor in _eager_floors(rows, cluster).items():
        if name in custom:
            custom[name] = msgspec.structs.replace(custom[name], eager_us=rounded(floor, 2))
    errors = {kind: rounded(relative_error(np.concatenate(each)), 2) for kind, each in ratios.items()}
    return msgspec.structs.replace(
        known, **vendor, custom_all_reduce=custom, relative_error=known.relative_error | errors
    )


def _parts(rows: Rows, cluster: Cluster) -> dict[tuple[str, str], Samples]:
    """Captured or vendor's calls within reach, by kind and library (empty for the vendor's)."""
    lists: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row in rows:
        kind, time = KINDS.get(row.get("op_name", "")), measured(row, "latency_us")
        p, n = measured(row, "num_gpus"), measured(row, "message_bytes")
        library = library_of(row.get("library", ""))
        if kind is None or time is None or n is None or p is None or p < 2 or library.eager:
            continue
        name = library.name or ""
        if name and p > _reach(cluster, name):
            continue
        share = (p - 1) / p * (2 if kind is Collective.ALL_REDUCE else 1)
        wire = n * share / device_rate(cluster.scale_up, int(p))
        lists.setdefault((KIND_OF[kind], name), []).append((p, wire, time * US))
    return {key: Samples(*np.array(each).T) for key, each in lists.items()}


def _reach(cluster: Cluster, library: str) -> float:
    """Devices that an engine's own all-reduce reaches: as known, else those of a host."""
    custom = cluster.collectives.custom_all_reduce.get(library)
    known = cluster.scale_up.node_devices if custom is None else custom.devices
    return known or cluster.scale_up.size


def _eager_floors(rows: Rows, cluster: Cluster) -> dict[str, float]:
    """Median time of small all-reduces outside captured graphs, in microseconds, by library."""
    times: dict[str, list[float]] = {}
    for row in rows:
        library, time = library_of(row.get("library", "")), measured(row, "latency_us")
        p, n = measured(row, "num_gpus"), measured(row, "message_bytes")
        if not library.eager or library.name is None or time is None or p is None or n is None:
            continue
        if n <= SMALL_BYTES and p <= _reach(cluster, library.name):
            times.setdefault(library.name, []).append(time)
    return {name: float(np.median(each)) for name, each in sorted(times.items())}


def _predicted(x: FloatArray, part: Samples) -> FloatArray:
    """(regimes, rows) seconds; x holds log latency, growth of the latency, log efficiency and its growth of each."""
    latency, growth, share, exponent = x.reshape(-1, 4, 1).transpose(1, 0, 2)
    reached = np.minimum(np.exp(share) * (part.devices / 2) ** exponent, 1)
    time: FloatArray = np.exp(latency) * (1 + growth * (part.devices - 2)) + part.wire / reached
    return time


def _fit_regimes(part: Samples) -> tuple[tuple[Regime, ...], FloatArray]:
    """Regimes by their latency, without those that hardly ever are the least, and the (rows,) seconds they predict."""
    least, largest = (-16.0, 0.0, -7.0, -2.5), (-7.0, 2.0, 0.0, 1.0)
    bounds = np.tile(least, REGIMES), np.tile(largest, REGIMES)
    x = fit_log(lambda x: _predicted(x, part).min(axis=0), part.seconds, _starts(part), bounds)
    used = np.bincount(_predicted(x, part).argmin(axis=0), minlength=REGIMES) >= LEAST_USE * len(part.seconds)
    constants = sorted(x.reshape(-1, 4)[used].tolist())
    regimes = tuple(_regime(*each) for each in constants)
    return regimes, _predicted(np.ravel(constants), part).min(axis=0)


def _regime(latency: float, growth: float, share: float, exponent: float) -> Regime:
    start = float(np.exp(latency)) / US
    return Regime(
        rounded(start), min(rounded(float(np.exp(share))), 1.0), round(start * growth, 2), round(exponent, 2) + 0.0
    )


def _starts(part: Samples) -> FloatArray:
    """(starts, parameters): lines through typical times at sizes drawn at random, with a fixed seed."""
    rng = np.random.default_rng(0)
    sizes = np.log(part.wire)
    floor = part.seconds.min()
    starts = []
    for _ in range(STARTS):
        start = []
        for rank, size in enumerate(np.sort(rng.uniform(sizes.min(), sizes.max(), REGIMES))):
            time = float(np.exp(np.interp(size, *_by_size(sizes, np.log(part.seconds)))))
            share = np.clip(np.exp(size) / (0.5 * time), 1e-3, 1)
            start += [np.log(floor if rank == 0 else 0.6 * time), 0.1, np.log(share), 0.0]
        starts.append(start)
    return np.array(starts)


def _by_size(sizes: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.argsort(sizes, kind="stable")
    return sizes[order], times[order]
