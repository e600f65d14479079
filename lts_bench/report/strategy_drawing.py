"""A strategy as a picture: every operator's split on every mesh axis, and where the group of each degree lies."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from lts_bench.report.strategy_text import OPEN, UNKNOWN, Rows, Sharding, letters, shown_axes, shown_degrees
from lts_bench.space.spans import SCALE_OUT, SCALE_UP, spans
from lts_bench.space.strategy import Degrees

WIDTH, HEIGHT, DPI = 1000, 760, 100
"""Of the picture, in pixels, and pixels an inch."""
DIMENSIONS = {
    "M": ("M", "tokens", "#56b4e9"),
    "K": ("K", "contraction", "#e69f00"),
    "N": ("N", "output features", "#009e73"),
    "heads": ("heads", "", "#cc79a7"),
    "batch": ("batch", "sequences", "#f0e442"),
    "kv_sequence": ("kv", "KV sequence", "#d55e00"),
    "vocabulary": ("vocab", "vocabulary", "#b8a1d9"),
    "hidden": ("hidden", "hidden size", "#8fc1c4"),
    "R": ("R", "replicated", "#d9d9d9"),
    "-": ("–", "not divided", "#f5f5f5"),
    OPEN: ("", "open", "#ffffff"),
    UNKNOWN: ("?", "no such choice", "#ff0000"),
}
"""What an axis splits: label, meaning and colour (those of Okabe and Ito, which all readers can tell apart, first)."""
LEVELS = {SCALE_UP: "#a6dba0", SCALE_OUT: "#f4a582"}
"""Colours of the levels of the cluster."""
EDGE, INK = "#aaaaaa", "#222222"
LABELS = 0.4
"""Share of the width that the operators' names take."""
FEWEST_LINES = 20
"""A small model's lines are no higher than those of a model with so many."""


def strategy_image(degrees: Degrees | None, sharding: Sharding, domain: int | None = None) -> NDArray[np.uint8]:
    """Return the drawing of a strategy as (`HEIGHT`, `WIDTH`, 3) pixels; see `strategy_figure`."""
    with mpl.rc_context({"font.family": "DejaVu Sans"}):
        canvas: Any = FigureCanvasAgg(strategy_figure(degrees, sharding, domain))
        canvas.draw()
        return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()


def strategy_figure(degrees: Degrees | None, sharding: Sharding, domain: int | None = None) -> Figure:
    """Return the drawing of a strategy.

    A row for every operator, by layer kind, and a column for every mesh axis; a cell's colour is the dimension that the
    axis splits. Beside it the degrees, in the colour of the level of the cluster that their groups lie on.

    Args:
        degrees: None while they are open.
        sharding: a letter an axis of every operator; `OPEN` while it is.
        domain: devices of a scale-up domain of the cluster, if one is known.
    """
    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor="white")
    rows = letters(degrees, sharding)
    _draw_splits(figure.add_axes((0.01, 0.02, 0.62, 0.96)), degrees, rows, shown_axes(sharding))
    _draw_degrees(figure.add_axes((0.66, 0.55, 0.33, 0.43)), degrees, shown_degrees(sharding), domain)
    _draw_legend(figure.add_axes((0.66, 0.02, 0.33, 0.48)), {letter for _, row in rows for letter in row})
    return figure


def _draw_splits(axes: Axes, degrees: Degrees | None, rows: Rows, names: tuple[str, ...]) -> None:
    """Draw a line of headings, and for each layer kind its name and a line an operator."""
    kinds = [(kind, list(members)) for kind, members in groupby(rows, lambda row: _split_key(row[0])[0])]
    lines = 1 + len(kinds) + len(rows)
    font = _prepare(axes, max(lines, FEWEST_LINES))
    width = (1.0 - LABELS) / len(names)
    for column, name in enumerate(names):
        heading = f"{name} = {getattr(degrees, name)}" if degrees else name
        axes.text(LABELS + (column + 0.5) * width, 0.5, heading, ha="center", weight="bold", **font)
    line = 1
    for kind, members in kinds:
        axes.text(0.0, line + 0.5, kind or "model", weight="bold", **font)
        for row, (key, split) in enumerate(members, start=line + 1):
            axes.text(0.03, row + 0.5, _split_key(key)[1], **font)
            for column, letter in enumerate(split):
                label, _, colour = DIMENSIONS[letter]
                _cell(axes, (LABELS + column * width, row, width), colour, label, font)
        line += 1 + len(members)


def _draw_degrees(axes: Axes, degrees: Degrees | None, names: tuple[str, ...], domain: int | None) -> None:
    """Draw a line for each degree: its name, its size, the level of the cluster that its groups lie on."""
    font = _prepare(axes, len(names) + 1)
    found = {span.name: span for span in spans(degrees, domain)} if degrees else {}
    known = f"level (domains of {domain})" if domain else "level"
    axes.text(0.0, 0.5, "degree", weight="bold", **font)
    axes.text(0.5, 0.5, known, weight="bold", **font)
    for line, name in enumerate(names, start=1):
        size, level = (str(found[name].size), found[name].level) if found else ("", "")
        axes.text(0.0, line + 0.5, name, **font)
        axes.text(0.42, line + 0.5, size, ha="right", **font)
        if level:
            _cell(axes, (0.5, line, 0.5), LEVELS[level], level, font)


def _draw_legend(axes: Axes, used: set[str]) -> None:
    """Draw the colours that occur, with what they mean."""
    shown = [each for letter, each in DIMENSIONS.items() if letter in used]
    font = _prepare(axes, len(DIMENSIONS))
    for line, (label, meaning, colour) in enumerate(shown):
        _cell(axes, (0.0, line, 0.3), colour, label, font)
        axes.text(0.35, line + 0.5, meaning, **font)


def _prepare(axes: Axes, lines: int) -> dict[str, Any]:
    """Give the axes a unit of height a line, from the top; return the font that fits a line."""
    axes.set(xlim=(0.0, 1.0), ylim=(lines, 0.0))
    axes.axis("off")
    height_points = axes.get_position().height * HEIGHT / DPI * 72 / lines
    return {"fontsize": min(10.0, 0.65 * height_points), "color": INK, "va": "center"}


def _cell(axes: Axes, place: tuple[float, float, float], colour: str, label: str, font: dict[str, Any]) -> None:
    """Draw a coloured cell, one line high, at (x, line, width)."""
    x, line, width = place
    axes.add_patch(
        Rectangle((x, line + 0.04), width, 0.92, facecolor=colour, edgecolor=EDGE, linewidth=0.8, clip_on=False)
    )
    axes.text(x + width / 2, line + 0.5, label, ha="center", **font)


def _split_key(key: str) -> tuple[str, str]:
    """Return the layer kind of an operator's key, empty for the embedding and the head, and its own name."""
    kind, dot, name = key.partition(".")
    return (kind, name) if dot else ("", key)
