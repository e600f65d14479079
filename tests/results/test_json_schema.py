from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_rows import make_row

from lts_bench.results.json_schema import row_json_schema
from lts_bench.results.schema import encode_row

FILE = Path(__file__).parents[2] / "docs" / "row.schema.json"


def test_the_published_schema_is_that_of_the_code() -> None:
    assert FILE.read_text(encoding="utf-8") == row_json_schema()


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True),
        ({"seed": -1}, False),
        ({"schema_version": 1}, False),
        ({"more": 1}, False),
        ({"trace": [[0, 0.1, 100.0, [1]]]}, False),
        ({"status": "fine"}, False),
    ],
)
def test_others_find_with_it_what_a_row_is(changes: dict[str, Any], right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="a validator by others, installed with the environments")
    validator = jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))
    assert validator.is_valid(json.loads(encode_row(make_row())) | changes) is right
