"""What ``lts-bench optimum`` answers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lts_bench.assess import QUANTILES, assess
from lts_bench.assessment import FIGURES, Assessment
from lts_bench.exact.optimum import Optimum, optimum
from lts_bench.results.store import write_output
from lts_bench.space.disaggregated import Disaggregated
from lts_bench.space.strategy import Strategy
from lts_bench.specs.failure import InputError
from lts_bench.specs.perturbation import draws
from lts_bench.specs.suite import load_suite
from lts_bench.task import Task, load_task, make_task

NAMED = ("model", "cluster", "workload")
"""What a task is made of where neither a suite nor a task is named."""


def find_tasks(*, suite: str | None, task: str | None, **parts: str | None) -> list[Task]:
    """The tasks of a suite, one by its name, or one made of ``parts``.

    Raises:
        InputError: unless exactly one of these ways is taken.
    """
    named = [name for name in NAMED if parts[name] is not None]
    if (suite is not None) + (task is not None) + bool(named) != 1:
        given = [name for name, value in (("suite", suite), ("task", task)) if value is not None] + named
        legal = ["--suite", "--task", "--model with --cluster and --workload"]
        raise InputError("needs one way to say which task", field="optimum", value=", ".join(given), legal=legal)
    if suite is not None:
        return [Task(spec) for spec in load_suite(suite).tasks]
    if task is not None:
        return [load_task(task)]
    if missing := [name for name in NAMED if parts[name] is None]:
        raise InputError("is missing", field=f"--{missing[0]}")
    return [make_task(**{name: value for name, value in parts.items() if value is not None})]


def write_strategy(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Write the strategy of a single task.

    Raises:
        InputError: if there are more, or it has none.
    """
    if len(documents) != 1:
        raise InputError("needs a single task", field="--out", value=len(documents), legal=[1])
    strategy = documents[0]["strategy"]
    if strategy is None:
        raise InputError("no strategy is feasible", field="--out", value=documents[0]["task"])
    write_output(path, json.dumps(strategy, indent=2) + "\n")


def optimum_document(task: Task, uncertainty: int = 0) -> dict[str, Any]:
    """The certified optimum of a task, and with ``uncertainty`` how it moves over so many draws of the constants."""
    started = time.perf_counter()
    found = optimum(task)
    seconds = time.perf_counter() - started
    document: dict[str, Any] = {
        "task": task.name,
        "goodput_per_npu": found.goodput_per_npu,
        "certified": found.certified,
        "bound": found.bound,
        "seconds": seconds,
        "over_megatron_search": _over_megatron(task, found),
        **dict.fromkeys(name for name in FIGURES if name != "goodput_per_npu"),
        "strategy": found.strategy and found.strategy.to_json(),
    }
    if found.strategy is not None:
        document |= _assessed(task, found.strategy).figures
        if uncertainty:
            document["uncertainty"] = _moved(task, found.strategy, uncertainty)
    return document


def _over_megatron(task: Task, found: Optimum) -> float | None:
    """Optimum ÷ the best strategy of Megatron's pattern; None where that meets no SLO."""
    reference = task.reference
    return found.goodput_per_npu / reference.goodput_per_npu if reference.meets_slo else None


def _assessed(task: Task, strategy: Strategy | Disaggregated) -> Assessment:
    return assess(task.model, task.cluster, task.engine, task.workload, strategy)


def _moved(task: Task, strategy: Strategy | Disaggregated, count: int, seed: int = 0) -> dict[str, Any]:
    """How a strategy does on drawn machines, whose own optima are certified.

    ``regret`` is 1 − its goodput ÷ the machine's optimum. Machines without a feasible strategy are left out of it.
    """
    machines = list(_machines(task, count, seed))
    vector = task.space.encode(strategy)[None]
    optima = [optimum(machine) for machine in machines]
    goodputs = np.array([machine.evaluate(vector)["goodput_per_npu"][0] for machine in machines])
    best = np.array([each.goodput_per_npu for each in optima])
    regret = 1 - goodputs[best > 0] / best[best > 0]
    winners = Counter(each.strategy.degrees.label() for each in optima if each.strategy)
    return {
        "draws": count,
        "feasible_share": float((goodputs > 0).mean()),
        "goodput_per_npu": _quantiles(goodputs),
        "optimum_goodput_per_npu": _quantiles(best),
        "regret": _quantiles(regret),
        "winning_degrees": {
            label: many / count for label, many in sorted(winners.items(), key=lambda kv: (-kv[1], kv[0]))
        },
    }


def _machines(task: Task, count: int, seed: int) -> Iterator[Task]:
    for cluster, engine in draws(task.cluster, task.engine, count, seed):
        yield task.on(cluster, engine)


def _quantiles(values: np.ndarray) -> dict[str, float | None]:
    if not len(values):
        return dict.fromkeys(QUANTILES)
    at = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf").tolist()
    return dict(zip(QUANTILES, at, strict=True))
