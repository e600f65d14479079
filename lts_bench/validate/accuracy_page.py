"""The accuracy page as Markdown: tables of figures in a frame of prose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import indent

import numpy as np

from lts_bench.report.tables import NONE, markdown_table, markdown_text
from lts_bench.validate.accuracy_text import TEMPLATE
from lts_bench.validate.answers import Answered, Pair
from lts_bench.validate.bootstrap import cell_intervals
from lts_bench.validate.figures import (
    CELL,
    Groups,
    by,
    cell,
    collective_groups,
    exchange_groups,
    exchange_pairs,
    kernel_groups,
    of_kind,
    serving_groups,
    twins,
)
from lts_bench.validate.fitted import fitted_constants
from lts_bench.validate.held_out import LEFT_OUT, Unseen
from lts_bench.validate.serving import cells, summarise_serving
from lts_bench.validate.show import decimals
from lts_bench.validate.table import error_statistics

ERRORS = ("Rows", "Median %", "Mean %", "p90 %", "Bias %", "Spearman")
FAR = 2.0
"""Relative error from which on a row counts as far off."""
MEASURES = {
    ("kernels", "latency_us"): "kernels, time",
    ("collectives", "latency_us"): "collectives, time",
    ("exchange", "dispatch_us"): "expert exchange, dispatch",
    ("exchange", "combine_us"): "expert exchange, combine",
    ("serving", "tpot_ms"): "serving, TPOT",
    ("serving", "ttft_ms"): "serving, TTFT",
    ("throughput", "out_tok_s"): "maximum throughput",
    ("static", "latency_s"): "static batch, latency",
    ("static", "out_tok_s"): "static batch, throughput",
    ("static", "ttft_ms"): "static batch, time to first tokens",
}
"""What is measured, by kind of table and column."""


def accuracy_page(answers: Sequence[Answered], models: Path, unseen: Mapping[str, Sequence[Unseen]], plots: str) -> str:
    """The whole page.

    Args:
        answers: all tables.
        models: folder of configs.
        unseen: serving runs predicted by constants that did not see them, by column.
        plots: folder of the plots as the page names it.
    """
    (serving,) = of_kind(answers, "serving")
    found = summarise_serving(serving.table, serving.predictions)
    choice = found["layout_choice"]
    throughput = [pair for table in of_kind(answers, "throughput") for pair in table.pairs("out_tok_s")]
    values = {
        "plots": plots,
        "overview": _overview(answers),
        "kernels": errors_table("Kernel, format, chip", kernel_groups(answers)),
        "collectives": errors_table("System", collective_groups(answers)),
        "exchange": errors_table("Way, mode, system", exchange_groups(answers)),
        "tpot": intervals_table(serving_groups(serving, "tpot_ms", models)),
        "ttft": intervals_table(serving_groups(serving, "ttft_ms", models)),
        "far_rows": sum(abs(pair.predicted / pair.truth - 1) > FAR for pair in serving.pairs("ttft_ms")),
        "far": f"{100 * FAR:.0f}",
        "cells": len({_cell(pair) for pair in serving.pairs("tpot_ms")}),
        "sweeps": decimals(found["errors"].get("tpot_ms", {}).get("spearman_within_groups"), 3) or NONE,
        "choices": choice["groups"],
        "hit": decimals(choice["hit_percent"], 0) or NONE,
        "regret": decimals(choice["regret_percent"]) or NONE,
        "held_out": held_out_table(unseen),
        "throughput": errors_table("Model, accelerator", by(throughput, cell("model"), cell("accelerator"))),
        "static": "\n".join(_static(table, column) for table in of_kind(answers, "static") for column in table.columns),
        "constants": markdown_table(("Constant", "Value", "Fitted by"), fitted_constants()),
        "most_devices": most(answers, "gpus", "tp"),
        "most_stages": most(answers, "pp"),
        "twins": indent(_twins(serving), "  "),
    }
    return TEMPLATE.format(**values)


def errors_line(pairs: Sequence[Pair]) -> list[str]:
    """Rows, median, mean, p90, bias and Spearman as the cells of a table."""
    errors = error_statistics([pair.truth for pair in pairs], [pair.predicted for pair in pairs])
    shares = [errors[f"{name}_percent"] for name in ("median_error", "mean_error", "p90_error", "bias")]
    return [f"{len(pairs):,}", *(decimals(share) or NONE for share in shares), decimals(errors["spearman"], 3) or NONE]


def errors_table(title: str, groups: Groups) -> str:
    """A line for each group."""
    return markdown_table((title, *ERRORS), [[markdown_text(name), *errors_line(groups[name])] for name in groups])


def intervals_table(groups: Groups) -> str:
    """A line for each group of serving runs, median and mean with their intervals."""
    lines = []
    for name, pairs in groups.items():
        rows, median, mean, *others = errors_line(pairs)
        error = np.array([100 * abs(pair.predicted / pair.truth - 1) for pair in pairs])
        intervals = cell_intervals(error, [_cell(pair) for pair in pairs])
        spans = [f"{low:.1f}–{high:.1f}" for low, high in intervals] if intervals else [NONE, NONE]
        lines.append([markdown_text(name), rows, median, spans[0], mean, spans[1], *others])
    return markdown_table(("", "Rows", "Median %", "95 %", "Mean %", "95 %", *ERRORS[3:]), lines)


def held_out_table(unseen: Mapping[str, Sequence[Unseen]]) -> str:
    """Median errors by constants that saw the runs and by constants that did not, for each model and each system."""
    lines = []
    for column in LEFT_OUT:
        names = sorted({each.row[column].strip() for runs in unseen.values() for each in runs})
        kept = {key: [each for each in runs if column in each.unseen] for key, runs in unseen.items()}
        for name in (*names, ""):
            line: list[str] = []
            for runs in kept.values():
                line += _held_out([each for each in runs if name in ("", each.row[column].strip())], column)
            each = "model" if column == LEFT_OUT[0] else column
            lines.append([markdown_text(name) or f"every {each} in turn", *line])
    titles = [
        f"{key.removesuffix('_ms').upper()} {what}" for key in unseen for what in ("rows", "seen %", "held out %")
    ]
    return markdown_table(("Left out", *titles), lines)


def _held_out(runs: Sequence[Unseen], column: str) -> list[str]:
    if not runs:
        return [NONE] * 3
    seen = np.median([abs(each.seen / each.truth - 1) for each in runs])
    held = np.median([abs(each.unseen[column] / each.truth - 1) for each in runs])
    return [f"{len(runs):,}", f"{100 * seen:.1f}", f"{100 * held:.1f}"]


def most(answers: Iterable[Answered], *columns: str) -> int:
    """The largest number in the columns of end-to-end tables."""
    rows = [row for table in answers if table.name.startswith("e2e/") for row in table.table.rows]
    return int(max((float(text) for row in rows for name in columns if (text := row.get(name, "").strip())), default=1))


def _overview(answers: Sequence[Answered]) -> str:
    lines = []
    for (kind, column), title in MEASURES.items():
        tables = [table for table in of_kind(answers, kind) if column in table.columns]
        pairs = [pair for table in tables for pair in table.pairs(column)]
        if kind == "exchange":
            pairs = exchange_pairs(answers, column)
        if pairs:
            skipped = sum(table.skipped.total() for table in tables)
            rows, *others = errors_line(pairs)
            lines.append([title, rows, f"{skipped:,}", *others])
    return markdown_table(("", "Rows", "Skipped", *ERRORS[1:]), lines)


def _static(table: Answered, column: str) -> str:
    title = MEASURES[table.kind, column].removeprefix("static batch, ")
    groups = by(table.pairs(column), cell("model"), lambda pair: f"tp {cell('tp')(pair)}")
    return errors_table(f"`{table.name}`, {title}", groups) if groups else ""


def _cell(pair: Pair) -> tuple[str, ...]:
    return cells(pair.row, CELL)


def _twins(serving: Answered) -> str:
    lines = [
        [markdown_text(names), str(len(apart)), f"{np.median(apart):.1f}", f"{np.percentile(apart, 90):.1f}"]
        for differ in (("engine",), ("engine", "engine_version"))
        for names, apart in twins(serving.table, differ).items()
    ]
    return markdown_table(("Same configuration under", "Pairs", "Median %", "p90 %"), lines)
