from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import numpy as np
import pytest
from made_rows import make_row

from lts_bench.results.schema import SCHEMA_VERSION, Point, Row, decode_row, encode_row, trace_digest
from lts_bench.results.upgrades import UPGRADES
from lts_bench.specs.failure import InputError
from lts_bench.task import Task, load_task

TASK = load_task("llama-3.1-8b/h100x8/chat")


def current(task: Task = TASK) -> Row:
    """Return a row of a built-in task, its trace two vectors of the task's space."""
    vectors = task.space.sample(2, np.random.default_rng(3)).tolist()
    trace = tuple(Point(i, 0.5 * i, 100.0 * i, tuple(vector)) for i, vector in enumerate(vectors, 1))
    best = msgspec.structs.replace(
        make_row().best, goodput_per_npu=200.0, strategy=task.space.decode(vectors[-1]).to_json()
    )
    return make_row(
        task=task.name, space_digest=task.space.digest, trace=trace, trace_digest=trace_digest(trace), best=best
    )


def as_version_1(row: Row, task: Task = TASK) -> dict[str, Any]:
    """Return what the first schema stored: the strategy of each point, by name."""
    document = json.loads(encode_row(row))
    document["trace"] = [
        {
            "evaluation": point.evaluation,
            "seconds": point.seconds,
            "goodput_per_npu": point.goodput_per_npu,
            "strategy": task.space.decode(point.vector).to_json(),
        }
        for point in row.trace
    ]
    points = [[point["evaluation"], point["goodput_per_npu"], point["strategy"]] for point in document["trace"]]
    document["trace_digest"] = hashlib.sha256(msgspec.json.encode(points, order="sorted")).hexdigest()
    del document["replay"]
    return document | {"schema_version": 1}


def decoded(document: dict[str, Any]) -> Row:
    return decode_row(json.dumps(document).encode(), "file")


def test_a_row_of_version_1_is_read_as_one_of_today() -> None:
    assert decoded(as_version_1(current())) == current()


def test_a_row_of_version_2_has_no_replay() -> None:
    row = current()
    document = json.loads(encode_row(row)) | {"schema_version": 2}
    del document["replay"]
    assert decoded(document) == row


def test_every_older_version_has_a_step() -> None:
    assert sorted(UPGRADES) == list(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "m/c/nothing"}, "unknown task"),
        ({"space_digest": "0"}, "file: space_digest: its space is not that of the built-in task"),
        ({"trace": [{}]}, "file: trace.*missing required field"),
        ({"task": 3}, "file: task: Expected `str`"),
    ],
)
def test_what_cannot_be_upgraded_is_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        decoded(as_version_1(current()) | changes)
