"""The scatter of a board: SLO compliance against normalised throughput, the same bytes from the same board."""

from __future__ import annotations

import colorsys
import hashlib
import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lts_bench.report.leaderboard import Board, Entry

NAMED = 10
"""This many agents of the highest score are coloured and named, the others are grey."""
ALWAYS_NAMED = ("random", "megatron_search")
SOLVED = "share of cells with a feasible strategy"
REPLAYED = "mean attainment of replayed final strategies at the offered load"
MARKERS = "osD^v<>PXp"
GREY = (0.75, 0.75, 0.75)
STYLE: Any = {"svg.hashsalt": "lts-bench", "svg.fonttype": "path", "font.family": "DejaVu Sans"}


def agent_colour(name: str) -> tuple[float, float, float]:
    """Return an agent's colour, the same on every figure."""
    hue, value = _hash(name)[:2]
    return colorsys.hsv_to_rgb(hue / 256, 0.75, 0.55 + 0.3 * value / 256)


def agent_marker(name: str) -> str:
    """Return an agent's marker, the same on every figure."""
    return MARKERS[_hash(name)[2] % len(MARKERS)]


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other beats in one coordinate and equals in the other, by rising x."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(points), key=lambda point: (-point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front[::-1]


def scatter(board: Board) -> dict[str, bytes]:
    """Return the scatter of a board as PNG and SVG, by file name."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 5), layout="constrained")
        draw(figure.add_subplot(), board)
        return {
            "scatter.png": _saved(figure, "png", {"Software": None}),
            "scatter.svg": _saved(figure, "svg", {"Date": None, "Creator": None}),
        }


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=120, metadata=metadata)
    return file.getvalue()


def draw(axes: Axes, board: Board) -> None:
    """Draw the scatter of a board; x is the attainment where every agent has one, else the solved share."""
    entries = sorted((e for e in board.entries if e.score is not None), key=lambda e: (-(e.score or 0.0), e.agent))
    named = {e.agent for e in entries[:NAMED]} | {e.agent for e in entries if e.agent.split("@")[0] in ALWAYS_NAMED}
    replayed = all(entry.attainment is not None for entry in entries)
    for entry in entries:
        _draw_agent(axes, entry, named=entry.agent in named, replayed=replayed)
    front = pareto_front([_point(entry, replayed=replayed) for entry in entries])
    if front:
        corners = zip(*_staircase(front), strict=True)
        axes.plot(*corners, color="black", linewidth=1, linestyle="--", zorder=1, label="Pareto front")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    axes.set(
        title=_plain(board.grid.name),
        xlabel=f"SLO compliance: {REPLAYED if replayed else SOLVED}",
        ylabel="normalised throughput: goodput ÷ optimum",
        xlim=(-0.03, 1.03),
    )
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _point(entry: Entry, *, replayed: bool) -> tuple[float, float]:
    compliance = entry.attainment if replayed else None
    return entry.solved / entry.cells if compliance is None else compliance, entry.score or 0.0


def _staircase(front: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the border of all that some point of the front dominates."""
    rights = [0.0, *(x for x, _ in front)]
    tops = [*(y for _, y in front), 0.0]
    return [corner for i, y in enumerate(tops) for corner in ((rights[i], y), (rights[min(i + 1, len(front))], y))]


def _draw_agent(axes: Axes, entry: Entry, *, named: bool, replayed: bool) -> None:
    x, y = _point(entry, replayed=replayed)
    left, right = (x, x) if replayed else entry.solved_interval
    low, high = entry.score_interval or (y, y)
    axes.errorbar(
        x,
        y,
        # Rounding may put a bound on the wrong side of its point.
        xerr=[[max(0.0, x - left)], [max(0.0, right - x)]],
        yerr=[[max(0.0, y - low)], [max(0.0, high - y)]],
        fmt=agent_marker(entry.agent) if named else ".",
        color=agent_colour(entry.agent) if named else GREY,
        capsize=2,
        linewidth=1,
        zorder=2 if named else 0,
        label=_plain(entry.agent) if named else None,
    )


def _plain(text: str) -> str:
    """Return text that matplotlib shows as it is: no mathematics, and a legend entry also for a leading underscore."""
    escaped = text.replace("$", r"\$")
    return f"\u200b{escaped}" if escaped.startswith("_") else escaped
