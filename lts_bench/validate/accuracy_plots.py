"""Scatter plots of the accuracy page: predicted against measured, the same bytes from the same numbers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lts_bench.report.style import STYLE
from lts_bench.validate.answers import Pair
from lts_bench.validate.figures import Groups

Panels = Mapping[str, Groups]
"""Groups of one colour each by what is measured, with its unit."""
BAND = 1.25
"""Factor at which the dashed lines run."""
INCHES = 4.5


def scatter(panels: Panels) -> bytes:
    """A PNG with a panel for each measure, both axes logarithmic."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(INCHES * len(panels), INCHES), layout="constrained")
        for axes, (title, groups) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            _draw(axes, title, groups)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
        return file.getvalue()


def _draw(axes: Axes, title: str, groups: Groups) -> None:
    axes.set(xscale="log", yscale="log", xlabel=f"measured {title}", ylabel=f"predicted {title}")
    axes.grid(alpha=0.3)
    if not groups:
        return
    colours = mpl.colormaps["tab10"]
    for place, (name, pairs) in enumerate(groups.items()):
        axes.plot(*_points(pairs), ".", markersize=3, alpha=0.5, color=colours(place % 10), label=name)
    ends = np.array([bound for pairs in groups.values() for bound in _bounds(pairs)])
    line = np.array([ends.min(), ends.max()])
    axes.plot(line, line, color="black", linewidth=0.8)
    for factor in (BAND, 1 / BAND):
        axes.plot(line, factor * line, color="black", linewidth=0.6, linestyle="--")
    axes.legend(fontsize="x-small", markerscale=2)


def _points(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    return [pair.truth for pair in pairs], [pair.predicted for pair in pairs]


def _bounds(pairs: Sequence[Pair]) -> tuple[float, float]:
    truth = [pair.truth for pair in pairs]
    return min(truth), max(truth)
