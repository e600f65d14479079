"""The summary of a validation as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lts_bench.console import print_rows

MOST_GROUPS = 40
"""Groups beyond which they are in the JSON document only."""


def print_summary(document: Mapping[str, Any]) -> None:
    """Print what ``summarise`` returned: counts, errors overall and within groups, reasons of skipped rows."""
    print(f"{document['predicted']} of {document['rows']} rows predicted")
    for reason, count in document["skipped"].items():
        print(f"skipped {count}: {reason}")
    lines = []
    for column, overall in document["errors"].items():
        groups = document["groups"][column]
        if 1 < len(groups) <= MOST_GROUPS:
            lines += [_line(column, name, each) for name, each in groups.items()]
        lines.append(_line(column, "all", overall) | {"in groups": decimals(overall["spearman_within_groups"], 3)})
    if lines:
        print_rows(lines)
    choice = document.get("layout_choice")
    if choice and choice["groups"]:
        print(
            f"layout at equal GPU count, {choice['groups']} choices: best one picked in {choice['hit_percent']:.0f} %, "
            f"{choice['regret_percent']:.1f} % slower in the mean"
        )


def _line(column: str, group: str, errors: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "column": column,
        "group": group,
        "rows": errors["rows"],
        "median %": decimals(errors["median_error_percent"]),
        "mean %": decimals(errors["mean_error_percent"]),
        "p90 %": decimals(errors["p90_error_percent"]),
        "bias %": decimals(errors["bias_percent"]),
        "Spearman": decimals(errors["spearman"], 3),
        "in groups": None,
    }


def decimals(value: float | None, digits: int = 1) -> str | None:
    """A number with so many decimals, without a negative zero; nothing for None."""
    return None if value is None else f"{round(value, digits) + 0.0:.{digits}f}"
