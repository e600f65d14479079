"""The page of how far the closed form and replays agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from lts_bench.harness.execute import finished, worker_pool
from lts_bench.report.tables import markdown_table, markdown_text
from lts_bench.specs.suite import Suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.validate.agreement import LOADS, Comparison, compare

THROUGHPUT, TPOT, TTFT, SHORT = 0.05, 0.05, 0.15, 0.03
"""Targets: relative errors, and what attainment may fall short of the percentile."""
ERRORS = {
    "tpot_error": "TPOT %",
    "lone_tpot_error": "TPOT of one replica %",
    "ttft_error": "TTFT %",
    "lone_ttft_error": "TTFT of one replica %",
}
COLUMNS = ("Task", "Strategy", "Throughput %", *ERRORS.values(), "Attainment %")
Progress = Callable[[int, int, str], None]
Kinds = Mapping[str, Callable[[Comparison], bool]]


def compare_suites(suites: Sequence[Suite], workers: int, progress: Progress) -> list[Comparison]:
    """Compare the optima of all tasks, those of equal models, clusters and workloads once, by task and load."""
    specs: dict[TaskSpec, TaskSpec] = {}
    for spec in (spec for suite in suites for spec in suite.tasks):
        plain = msgspec.structs.replace(spec, name=f"{spec.model}/{spec.cluster}/x", why="", feedback="graded")
        specs.setdefault(plain, spec)
    rows: list[Comparison] = []
    with worker_pool(workers) as pool:
        for done, found in enumerate(finished(pool, compare, [(spec,) for spec in specs.values()]), start=1):
            rows += found
            progress(done, len(specs), found[0].task)
    return sorted(rows, key=lambda row: (row.task, row.load))


KINDS: Kinds = {
    "one stage, one rank": lambda row: _co_located(row) and " pp=1 dp=1 " in row.degrees,
    "pipelines": lambda row: _co_located(row) and " pp=1 " not in row.degrees,
    "ranks in lockstep": lambda row: _co_located(row) and " dp=1 " not in row.degrees and " pp=1 " in row.degrees,
    "two pools": lambda row: not _co_located(row),
}


def _co_located(row: Comparison) -> bool:
    return not row.degrees.startswith("prefill")


def document(rows: Sequence[Comparison]) -> dict[str, Any]:
    """The comparisons and their summary as plain data."""
    plain = [msgspec.structs.asdict(row) | {name: getattr(row, name) for name in ERRORS} for row in rows]
    return {"summary": summary(rows), "comparisons": plain}


def summary(rows: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Shares of comparisons within the targets and the largest errors, by kind of strategy."""
    kinds = {name: [row for row in rows if of(row)] for name, of in KINDS.items()} | {"all": list(rows)}
    return [{"kind": kind, "comparisons": len(mine), **_shares(mine)} for kind, mine in kinds.items() if mine]


def _shares(rows: Iterable[Comparison]) -> dict[str, float]:
    errors = {
        "throughput": (THROUGHPUT, [row.throughput - 1 for row in rows]),
        "tpot": (TPOT, [row.tpot_error for row in rows]),
        "lone_tpot": (TPOT, [row.lone_tpot_error for row in rows]),
        "ttft": (TTFT, [row.ttft_error for row in rows]),
        "lone_ttft": (TTFT, [row.lone_ttft_error for row in rows]),
        "attainment": (SHORT, [min(row.attainment - row.wanted, 0.0) for row in rows]),
    }
    return {name: float(np.mean(np.abs(found) <= limit)) for name, (limit, found) in errors.items()}


def page(rows: Sequence[Comparison]) -> str:
    """The page as Markdown: the summary, then a line a task with its loads in turn."""
    tasks: dict[str, list[Comparison]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    lines = [_line(mine) for mine in tasks.values()]
    shares = [
        [each["kind"], str(each["comparisons"]), *(f"{100 * each[name]:.0f} %" for name in SHARES)]
        for each in summary(rows)
    ]
    told = markdown_table(("Strategies", "Rows", *SHARES.values()), shares)
    return INTRODUCTION.replace(SUMMARY, told) + markdown_table(COLUMNS, lines)


SHARES = {
    "throughput": f"Throughput ±{100 * THROUGHPUT:.0f} %",
    "tpot": f"TPOT ±{100 * TPOT:.0f} %",
    "lone_tpot": "TPOT of one replica",
    "ttft": f"TTFT ±{100 * TTFT:.0f} %",
    "lone_ttft": "TTFT of one replica",
    "attainment": f"Attainment −{100 * SHORT:.0f} points",
}


def _line(rows: Sequence[Comparison]) -> list[str]:
    errors = [[100 * (row.throughput - 1) for row in rows]]
    errors += [[100 * getattr(row, name) for row in rows] for name in ERRORS]
    return [
        markdown_text(rows[0].task),
        rows[0].degrees,
        *(" ".join(f"{each:+.1f}" for each in its) for its in errors),
        " ".join(f"{100 * row.attainment:.1f}" for row in rows),
    ]


SUMMARY = "(summary)"
LOADS_TEXT = ", ".join(f"{load:g}" for load in LOADS[:-1]) + f" and {LOADS[-1]:g}"
INTRODUCTION = f"""# The closed form against replays

`lts-bench validate replay --out docs/closed-form.md` replays the certified optimum of every task with Poisson arrivals
at {LOADS_TEXT} of the rate that the closed form predicts, and compares means with means: closed form ÷ replay − 1.
Attainment is the share of requests that meet all limits. Requests go to replicas in turn.

{SUMMARY}
A row is a task at a load; the shares are those within the targets.

## Where they differ, and why

- **Many replicas.** The closed form takes arrivals at each replica for a Poisson process. A router that serves replicas
  in turn makes them more even, the more so the more replicas there are. Waits are shorter than predicted. And prompts
  rarely come together: where ranks go in lockstep, and in pipelines, fewer of them share a step or follow each other
  closely, so that they hold up decode more often, and TPOT is longer than predicted. The columns *of one replica* are
  the same with Poisson arrivals at one replica: what is left is the closed form's own error.
- **Few sequences and long prompts.** Where a replica decodes a handful of sequences between prompts of thousands of
  tokens, their number varies by as much as its mean, and so does the step; the closed form has the step of the mean.
- **Attainment of tight limits.** TPOT is limited in the mean, and a request's own may exceed it: where the optimum lies
  at the limit, a few requests more in a batch decide. The percentile of TTFT is an exponential tail.
- **Two pools** disturb each other least: TPOT has no prompts in it, prompts are served one after the other, and the
  form of their wait has the number of replicas in it.

## Every task

Numbers are those at the three loads.

"""
