from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import Count, Positive, Text, convert, parse, read_yaml


class Part(msgspec.Struct, frozen=True):
    rate_bytes: Positive = 1.0


class Whole(msgspec.Struct, frozen=True):
    name: Text
    count: Count
    part: Part = Part()
    parts: tuple[Part, ...] = ()
    table: dict[str, Positive] = {}


def load(text: str) -> Whole:
    return convert(parse(text, "given.yaml"), Whole, "given.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e12", 1e12),
        ("1E+3", 1e3),
        ("-1.5e-3", -1.5e-3),
        (".5", 0.5),
        ("5.", 5.0),
        ("12", 12),
        ("010", 10),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", math.inf),
        ("on", "on"),
        ("no", "no"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("0x10", "0x10"),
        ("2024-01-01", "2024-01-01"),
        ("'1e3'", "1e3"),
        ("80GB", "80GB"),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    read = parse(f"key: {text}", "given.yaml")["key"]
    assert (read, type(read)) == (value, type(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_that_python_prints_is_read_back(value: float) -> None:
    assert parse(f"key: {value!r}", "given.yaml")["key"] == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\ncount: 1\ncuont: 2", "given.yaml: cuont: unknown key; did you mean 'count'?"),
        ("name: a", "given.yaml: count: required key is missing"),
        ("name: a\ncount: null", "given.yaml: count: required key is missing"),
        ("name: a\ncount: true", "given.yaml: count: must be a number, not a boolean (got True)"),
        ("name: a\ncount: 1.5", "given.yaml: count: must be a whole number (got 1.5)"),
        ("name: a\ncount: 0", "given.yaml: count: must be >= 1 (got 0)"),
        ("name: a\ncount: 1_000", "given.yaml: count: must be a plain number"),
        ("name: 7\ncount: 1", "given.yaml: name: must be text (got 7)"),
        ("name: ' '\ncount: 1", "given.yaml: name: must be text"),
        ("name: a\ncount: 1\npart: {rate_bytes: -1}", "given.yaml: part.rate_bytes: must be > 0 (got -1)"),
        ("name: a\ncount: 1\npart: {rate_bytes: .inf}", "given.yaml: part.rate_bytes: must be a finite number"),
        ("name: a\ncount: 1\npart: {rate_bytes: .nan}", "given.yaml: part.rate_bytes: must be a finite number"),
        ("name: a\ncount: 1\npart: {rate_bytes: 80GB}", "80 GB is 80e9, 80 GiB is 85899345920 (got '80GB')"),
        ("name: a\ncount: 1\npart: 3", "given.yaml: part: must be a mapping (got 3)"),
        ("name: a\ncount: 1\nparts: 3", "given.yaml: parts: must be a list (got 3)"),
        ("name: a\ncount: 1\nparts: [{}, {rate: 1}]", "given.yaml: parts[1].rate: unknown key"),
        ("name: a\ncount: 1\ntable: {x: 0}", "given.yaml: table.x: must be > 0 (got 0)"),
        ("name: a\ncount: 1\ncount: 2", "given.yaml: count: the key occurs twice"),
        ("name: a\n1: 2", "given.yaml: 1: keys must be text"),
        ("- a", "given.yaml: must be a mapping of keys to values"),
        ("", "given.yaml: must be a mapping of keys to values"),
        ("name: [", "given.yaml: not valid YAML"),
        ("name: &a [*a]", "given.yaml: not valid YAML"),
        ("name: !!python/name:os.system", "given.yaml: not valid YAML"),
    ],
)
def test_bad_input_is_one_line_with_file_key_and_rule(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        load(text)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_null_is_absent() -> None:
    assert load("name: a\ncount: 2\npart: null\ntable: {x: 1, y: null}") == Whole("a", 2, table={"x": 1.0})


def test_json_is_read_by_suffix(tmp_path: Any) -> None:
    path = tmp_path / "given.json"
    path.write_text('{\n\t"name": "a",\n\t"count": 1e3\n}', encoding="utf-8")
    assert convert(read_yaml(path), Whole, "given.json") == Whole("a", 1000)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": }', "[1]"])
def test_bad_json_is_refused(tmp_path: Any, text: str) -> None:
    path = tmp_path / "given.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"given\.json"):
        read_yaml(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Any) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(InputError, match="cannot be read"):
            read_yaml(path)


@given(count=st.integers(1, 10**6), rate=st.floats(1e-300, 1e299))
def test_plain_data_of_a_spec_gives_the_spec_again(count: int, rate: float) -> None:
    whole = Whole("a", count, Part(rate), (Part(2 * rate),), {"x": rate})
    assert convert(msgspec.to_builtins(whole), Whole, "memory") == whole
