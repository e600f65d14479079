"""The figure of ``lts-bench replay``: latencies and attainment against the rate of requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lts_bench.report.style import STYLE, saved
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import Slo

KINDS = ("svg", "png")
LINES = {"p50": "-", "p90": "--", "p99": ":"}
"""Percentiles that are drawn, and their dashes."""


def plot_kind(file: Path) -> str:
    """The kind of a figure's file.

    Raises:
        InputError: there is no such kind.
    """
    kind = file.suffix.removeprefix(".")
    if kind not in KINDS:
        raise InputError(
            "no such kind of figure", field="--plot", value=str(file), legal=[f".{each}" for each in KINDS]
        )
    return kind


def latency_figure(points: Sequence[dict[str, Any]], slo: Slo, kind: str) -> bytes:
    """Draw what a strategy's latencies are at which rates.

    Args:
        points: as ``rate_sweep`` returns them.
        slo: its limits are drawn too.
        kind: ``svg`` or ``png``.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 7), layout="constrained")
        ttft, tpot, attained = figure.subplots(3, sharex=True)
        _draw_latency(ttft, points, "ttft_ms", slo.ttft_ms)
        _draw_latency(tpot, points, "tpot_ms", slo.tpot_ms)
        attained.plot(
            _rates(points), [point["attainment"] for point in points], color="black", marker="o", markersize=3
        )
        attained.axhline(slo.percentile / 100, color="tab:red", linewidth=1, label=f"{slo.percentile:g} %")
        attained.set(ylabel="attainment", ylim=(-0.03, 1.03), xlabel="requests/s")
        for axes, corner in ((ttft, "upper left"), (tpot, "upper left"), (attained, "lower left")):
            axes.legend(loc=corner, fontsize="small")
            axes.grid(alpha=0.3)
        return saved(figure, kind)


def _draw_latency(axes: Axes, points: Sequence[dict[str, Any]], key: str, limit: float | None) -> None:
    """Draw percentiles, logarithmic: past its capacity a queue grows without end."""
    there = [point for point in points if point[key] is not None]
    for name, dashes in LINES.items():
        axes.plot(_rates(there), [point[key][name] for point in there], dashes, color="black", label=name)
    if limit is not None:
        axes.axhline(limit, color="tab:red", linewidth=1, label=f"limit {limit:g} ms")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(f"{key.removesuffix('_ms').upper()}, ms")


def _rates(points: Sequence[dict[str, Any]]) -> list[float]:
    return [point["requests_per_s"] for point in points]
