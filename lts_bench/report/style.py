"""How figures look: an agent's colour, marker and dashes, the same on each; the same bytes from the same data."""

from __future__ import annotations

import colorsys
import hashlib
import io
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from lts_bench.report.leaderboard import Entry

NAMED = 10
"""This many agents of the highest score are coloured and named, the others are grey."""
ALWAYS_NAMED = ("random", "megatron_search")
HOUSE = (
    "random", "megatron_search", "evolution", "ppo", "l2s", "local_search", "recipes", "annealing", "alpa", "bayesian",
    "nominal", "eda", "deepseek", "dqn", "megatron", "l2s_pretrained", "weight_stationary_2d", "portfolio",
)  # fmt: skip
"""Agents that are often drawn together: no two look alike."""
GOLDEN = 0.618034
"""Hues that many turns of the colour circle apart never come close for a few agents."""
MARKERS = "osD^v<>PXph"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))
GREY = (0.75, 0.75, 0.75)
STYLE: Any = {"svg.hashsalt": "lts-bench", "svg.fonttype": "path", "font.family": "DejaVu Sans"}


def agent_colour(name: str) -> tuple[float, float, float]:
    """Return an agent's colour, the same on every figure; neighbours differ in hue and in lightness."""
    number = _number(name)
    return colorsys.hsv_to_rgb(number * GOLDEN % 1, 0.85, (0.4, 0.85, 0.6)[number % 3])


def agent_marker(name: str) -> str:
    """Return an agent's marker, the same on every figure."""
    return MARKERS[_number(name) % len(MARKERS)]


def agent_dashes(name: str) -> Any:
    """Return the dashes of an agent's lines, the same on every figure."""
    return DASHES[_number(name) % len(DASHES)]


def _number(name: str) -> int:
    """Return what an agent's looks follow from: its place in the house, or a hash."""
    known = name.split("@")[0]
    return HOUSE.index(known) if known in HOUSE else int.from_bytes(hashlib.sha256(name.encode()).digest()[:2])


def named_agents(entries: Sequence[Entry]) -> list[str]:
    """Return the agents that are coloured and named: the best ones, by score, and the baselines."""
    ordered = sorted(entries, key=lambda entry: (-(entry.score or 0.0), entry.agent))
    best = [entry.agent for entry in ordered[:NAMED]]
    return best + [e.agent for e in ordered[NAMED:] if e.agent.split("@")[0] in ALWAYS_NAMED]


def line_style(name: str, *, named: bool) -> dict[str, Any]:
    """Return how an agent's line is drawn; its marker tells it where colours cannot be told apart."""
    if not named:
        return {"color": GREY, "linewidth": 0.8, "zorder": 1}
    look = {"marker": agent_marker(name), "markersize": 4, "markevery": 0.2, "linestyle": agent_dashes(name)}
    return {"color": agent_colour(name), "linewidth": 1.4, "zorder": 2, "label": plain(name), **look}


def plain(text: str) -> str:
    """Return text that matplotlib shows as it is: no mathematics, and a legend entry also for a leading underscore."""
    escaped = text.replace("$", r"\$")
    return f"\u200b{escaped}" if escaped.startswith("_") else escaped


def saved(figure: Figure, kind: str) -> bytes:
    """Return a figure as ``svg`` or ``png``, without a date."""
    file = io.BytesIO()
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    figure.savefig(file, format=kind, dpi=120, metadata=metadata[kind])
    return file.getvalue()
