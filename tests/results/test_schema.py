from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import COST, PROVENANCE, make_row

from lts_bench.results.schema import Row, decode_row, encode_row, outcome
from lts_bench.specs.failure import InputError


@given(st.floats(1e-6, 1e6), st.integers(0, 9), st.text())
def test_a_row_survives_its_json_to_the_byte(score: float, seed: int, error: str) -> None:
    row = make_row(score=score, seed=seed, error=error)
    assert decode_row(encode_row(row), "x") == row
    assert encode_row(decode_row(encode_row(row), "x")) == encode_row(row)


def test_json_has_sorted_keys_and_ends_its_one_line() -> None:
    data = encode_row(make_row()).decode()
    assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_only_finite_numbers_are_stored(number: float) -> None:
    row = make_row(cost=msgspec.structs.replace(COST, wall_s=number))
    with pytest.raises(InputError, match=r"cost\.wall_s: must be a finite number"):
        encode_row(row)


def test_nan_in_a_file_is_refused() -> None:
    data = encode_row(make_row()).replace(b'"wall_s":1.0', b'"wall_s":NaN')
    with pytest.raises(InputError, match="file: not a JSON document"):
        decode_row(data, "file")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["seed"], "1", "file: seed: Expected `int`"),
        (["reference"], 0.0, "file: reference: Expected `float` > 0"),
        (["cost", "evaluations"], -1, "file: cost.evaluations: Expected `int` >= 0"),
        (["cost", "wall"], 1.0, r"file: cost.wall: .*did you mean 'wall_s'"),
        (["status"], "fine", "file: status: Invalid enum value 'fine'"),
        (["run_id"], "xyz", "file: run_id: Expected"),
        (["schema_version"], 4, r"file: schema_version: unknown schema version \(got 4\); legal: 1, 2, 3"),
        (["trace_digest"], "0", "file: trace_digest: does not belong to the trace"),
        (["trace"], [], "file: trace: its last point must be the best"),
        (["best"], None, "file: trace: its last point must be the best"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(path: list[str], value: Any, message: str) -> None:
    document = json.loads(encode_row(make_row()))
    part = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(InputError, match=message):
        decode_row(json.dumps(document).encode(), "file")


def test_a_missing_field_is_named() -> None:
    document = json.loads(encode_row(make_row()))
    del document["cost"]["unique"]
    with pytest.raises(InputError, match=r"file: cost\.unique: .*missing"):
        decode_row(json.dumps(document).encode(), "file")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"null", b"3"])
def test_what_is_no_row_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^file: "):
        decode_row(data, "file")


def test_a_trace_improves_strictly() -> None:
    row = make_row()
    with pytest.raises(ValueError, match="must improve strictly"):
        make_row(trace=(row.trace[0], row.trace[0], row.trace[1]))


def test_outcome_is_what_reruns_agree_in() -> None:
    row: Row = make_row()
    elsewhere = msgspec.structs.replace(
        row,
        isolation="in_process",
        cost=msgspec.structs.replace(COST, wall_s=9.0),
        provenance=msgspec.structs.replace(PROVENANCE, cpu="y"),
        trace=tuple(msgspec.structs.replace(point, seconds=9.0) for point in row.trace),
    )
    assert outcome(row) == outcome(elsewhere)
    assert outcome(row) != outcome(make_row(score=1.5))
