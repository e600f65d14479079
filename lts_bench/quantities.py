"""Numbers for people: a value with the unit that its name tells."""

from __future__ import annotations

from typing import Any

NONE = "–"
PLAIN = (
    ("tokens_per_s", "tokens/s"),
    ("goodput_per_npu", "tokens/s"),
    ("_tokens", "tokens"),
    ("_ms", "ms"),
    ("_us", "µs"),
)
"""Endings of names → the unit they have already."""
SCALED = (
    ("flops_per_s", "FLOP/s"),
    ("bytes_per_s", "B/s"),
    ("bytes_per_token", "B"),
    ("bytes_per_sequence", "B"),
    ("bytes", "B"),
)
"""Endings of names → the unit that gets a decimal prefix."""
PREFIXES = ("", "k", "M", "G", "T", "P")


def quantity(name: str, value: float) -> str:
    """Return a number with its unit; of a dotted name the last part that tells a unit counts.

    Example:
        >>> quantity("memory_bytes.weights", 17_641_766_912)
        '17.64 GB'
    """
    for part in reversed(name.split(".")):
        if part == "violation":
            return f"{100 * value:.4g} %"
        if unit := next((unit for end, unit in PLAIN if part.endswith(end)), None):
            return f"{_digits(value)} {unit}"
        if unit := next((unit for end, unit in SCALED if part.endswith(end)), None):
            return _scaled(value, unit)
    return f"{value:,}" if isinstance(value, int) else _digits(value)


def shown(name: str, value: Any) -> str:
    """Return any plain value as text; a list comma by comma, nothing as a dash."""
    if isinstance(value, list | tuple):
        return ", ".join(shown(name, each) for each in value) or NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return quantity(name, value)
    return NONE if value is None else str(value)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _scaled(value: float, unit: str) -> str:
    scale = 0
    while abs(value) >= 999.95 and scale + 1 < len(PREFIXES):
        value, scale = value / 1000, scale + 1
    return f"{value:.4g} {PREFIXES[scale]}{unit}"
