"""What there is: suites, tasks, agents, models, chips, clusters and engines, as lines of plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lts_bench.specs.failure import InputError, did_you_mean

Line = dict[str, Any]


def listing(kind: str) -> list[Line]:
    """Return a line for each thing of a kind; agents are read, not imported.

    Raises:
        InputError: there is no such kind.
    """
    if kind not in KINDS:
        raise InputError(f"no such list{did_you_mean(kind, KINDS)}", field="list", value=kind, legal=tuple(KINDS))
    return KINDS[kind]()


def _suites() -> list[Line]:
    from lts_bench.specs.suite import list_suites, load_suite

    suites = [load_suite(name) for name in list_suites()]
    return [
        {
            "name": suite.name,
            "tasks": len(suite.tasks),
            "seeds": suite.seeds,
            "budget": suite.budget,
            "agents": list(suite.agents),
            "description": suite.description,
        }
        for suite in suites
    ]


def _tasks() -> list[Line]:
    from lts_bench.specs.suite import list_suites, load_suite

    # The tasks of generated suites are too many to read; list_tasks() has all of them.
    suites = [load_suite(name) for name in list_suites(generated=False)]
    lines = [{"name": task.name, "suite": suite.name, "why": task.why} for suite in suites for task in suite.tasks]
    return sorted(lines, key=lambda line: (line["name"], line["suite"]))


def _agents() -> list[Line]:
    from lts_bench.registry import list_agents

    return [msgspec.to_builtins(info) for info in list_agents()]


def _models() -> list[Line]:
    from lts_bench.specs.config import list_models, load_model

    return [
        {
            "name": model.name,
            "parameters": model.parameters.total,
            "active": model.parameters.active,
            "layers": len(model.layers),
            "weights": model.precision.default.dtype,
        }
        for model in map(load_model, list_models())
    ]


def _chips() -> list[Line]:
    from lts_bench.specs.chip import list_chips, load_chip

    return [
        {
            "name": chip.name,
            "vendor": chip.vendor,
            "hbm_bytes": chip.hbm_bytes,
            "hbm_bytes_per_s": chip.hbm_bytes_per_s,
            "bf16_flops_per_s": chip.peak_flops_per_s["bf16"],
        }
        for chip in map(load_chip, list_chips())
    ]


def _clusters() -> list[Line]:
    from lts_bench.specs.cluster import list_clusters

    return _named(list_clusters())


def _engines() -> list[Line]:
    from lts_bench.specs.engine import list_engines

    return _named(list_engines())


def _named(names: list[str]) -> list[Line]:
    return [{"name": name} for name in names]


KINDS: dict[str, Callable[[], list[Line]]] = {
    "suites": _suites,
    "tasks": _tasks,
    "agents": _agents,
    "models": _models,
    "chips": _chips,
    "clusters": _clusters,
    "engines": _engines,
}
