"""Makes rows of older schemas into rows of the current one, a step a version.

To change the schema: raise ``SCHEMA_VERSION``, add the step from the version before to `UPGRADES`, and put a row of
that version beside those of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from lts_bench.specs.failure import InputError

if TYPE_CHECKING:
    from lts_bench.task import Task

Document = dict[str, Any]


class _Point1(msgspec.Struct):
    evaluation: int
    seconds: float
    goodput_per_npu: float
    strategy: dict[str, Any]


class _Row1(msgspec.Struct):
    task: str
    space_digest: str
    trace: list[_Point1]


def vectors_for_strategies(document: Document, source: str) -> Document:
    """Version 1 had a strategy at each point of the trace, version 2 has its vector in the task's space."""
    from lts_bench.results.schema import Point, trace_digest
    from lts_bench.space.disaggregated import legal_any

    row = msgspec.convert(document, _Row1)
    task = _task(row.task)
    if task.space.digest != row.space_digest:
        rule = "its space is not that of the built-in task: run the cell again"
        raise InputError(rule, source=source, field="space_digest", value=row.space_digest)
    trace = []
    for point in row.trace:
        strategy = legal_any(point.strategy, task.model, task.cluster).strategy
        vector = tuple(map(int, task.space.encode(strategy)))
        trace.append(Point(point.evaluation, point.seconds, point.goodput_per_npu, vector))
    digest = trace_digest(tuple(trace))
    return document | {"trace": msgspec.to_builtins(trace), "trace_digest": digest, "schema_version": 2}


def without_replay(document: Document, source: str) -> Document:
    """Version 2 had no replay of the best strategy."""
    return document | {"replay": None, "schema_version": 3}


UPGRADES: Mapping[int, Callable[[Document, str], Document]] = {1: vectors_for_strategies, 2: without_replay}
"""The step from each older version to the next."""


def upgraded(document: Document, source: str) -> Document:
    """Return a row of an older schema in the current one.

    Raises:
        InputError: what the newer schema asks for cannot be found.
        msgspec.ValidationError: a field that the step needs is missing or wrong.
    """
    while step := UPGRADES.get(document["schema_version"]):
        document = step(document, source)
    return document


@lru_cache(maxsize=32)
def _task(name: str) -> Task:
    from lts_bench.task import load_task

    return load_task(name)
