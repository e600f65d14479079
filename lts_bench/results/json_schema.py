"""The schema of a row for readers in any language; ``python -m lts_bench.results.json_schema`` prints it.

``docs/row.schema.json`` is what this prints.
"""

from __future__ import annotations

import json

import msgspec

from lts_bench.results.schema import SCHEMA_VERSION, Row


def row_json_schema() -> str:
    """Return the JSON schema (draft 2020-12) of a row of the current version."""
    found = msgspec.json.schema(Row)
    found["$defs"]["Row"]["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    found["$defs"]["Row"]["required"].append("schema_version")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Row, version {SCHEMA_VERSION}"}
    return json.dumps(head | found, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(row_json_schema(), end="")
