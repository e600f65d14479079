"""Reads YAML and JSON of our own making and turns it into specs, telling the key and the rule that is broken."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from lts_bench.specs.failure import InputError, did_you_mean

Positive = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[float, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
ZeroToOne = Annotated[float, msgspec.Meta(ge=0, le=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]

T = TypeVar("T")


class RuleError(InputError):
    """A rule between fields, raised by a spec's ``__post_init__``; ``convert`` adds file and path."""

    def __init__(self, rule: str, *, field: str, value: Any = None, legal: tuple[Any, ...] = ()) -> None:
        super().__init__(rule, field=field, value=value, legal=legal)
        self.rule = rule


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read the mapping that a YAML file holds (a JSON file where the name ends in ``.json``)."""
    path = Path(path)
    try:
        return parse(path.read_text(encoding="utf-8"), str(path), is_json=path.suffix == ".json")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("cannot be read: not UTF-8", source=str(path)) from error


def parse(text: str, source: str, *, is_json: bool = False) -> dict[str, Any]:
    """Parse a YAML or JSON text that holds one mapping without repeated keys."""
    try:
        data = json.loads(text, object_pairs_hook=_unique) if is_json else yaml.load(text, _Loader)
    except RuleError as error:
        raise InputError(error.rule, source=source, field=error.field) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"not valid {'JSON' if is_json else 'YAML'}: {error}", source=source) from error
    if not isinstance(data, dict):
        raise InputError("must be a mapping of keys to values", source=source)
    return data


def convert(data: Any, type_: type[T], source: str) -> T:
    """Build a spec from plain data; ``null`` means absent.

    Args:
        data: what ``read_yaml`` returned, or a part of it.
        type_: the spec's class.
        source: the file, for messages.

    Raises:
        InputError: naming the key, its value and the rule.
    """
    checked = _check(data, inspect.type_info(type_), _Place(source))
    try:
        return msgspec.convert(checked, type_)
    except msgspec.ValidationError as error:
        broken = error.__cause__
        if not isinstance(broken, RuleError):
            raise InputError(str(error), source=source) from error
        inside = str(error).partition(" - at `$.")[2].rstrip("`")
        field = ".".join(filter(None, (inside, broken.field)))
        raise InputError(broken.rule, source=source, field=field, value=broken.value, legal=broken.legal) from error


@dataclass(frozen=True)
class _Place:
    """Where in which file a value stands."""

    source: str
    path: str = ""

    def at(self, key: str) -> _Place:
        return _Place(self.source, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int) -> _Place:
        return _Place(self.source, f"{self.path}[{index}]")

    def error(self, rule: str, value: Any = None, legal: tuple[Any, ...] = ()) -> InputError:
        return InputError(rule, source=self.source, field=self.path or None, value=value, legal=legal)


def _check(value: Any, kind: inspect.Type, place: _Place) -> Any:
    match kind:
        case inspect.UnionType(types=members):
            return _check(value, next(each for each in members if not isinstance(each, inspect.NoneType)), place)
        case inspect.StructType():
            return _check_struct(value, kind, place)
        case inspect.DictType():
            return _check_dict(value, kind, place)
        case inspect.VarTupleType(item_type=item):
            if not isinstance(value, list | tuple):
                raise place.error("must be a list", value)
            return [_check(each, item, place.item(index)) for index, each in enumerate(value)]
        case inspect.IntType() | inspect.FloatType():
            return _check_number(value, kind, place)
        case _:
            return _check_scalar(value, kind, place)


def _check_scalar(value: Any, kind: inspect.Type, place: _Place) -> Any:
    match kind:
        case inspect.LiteralType(values=legal) if value not in legal:
            raise place.error(f"not a legal value{did_you_mean(str(value), map(str, legal))}", value, tuple(legal))
        case inspect.StrType(min_length=least) if not isinstance(value, str) or len(value.strip()) < (least or 0):
            raise place.error("must be text", value)
        case inspect.BoolType() if not isinstance(value, bool):
            raise place.error("must be true or false", value)
    return value


def _check_struct(value: Any, kind: inspect.StructType, place: _Place) -> dict[str, Any]:
    fields = {each.encode_name: each for each in kind.fields}
    if not isinstance(value, Mapping):
        raise place.error("must be a mapping", value, tuple(fields))
    for key in value:
        if key not in fields:
            raise place.at(str(key)).error(f"unknown key{did_you_mean(str(key), fields)}", legal=tuple(fields))
    present = {key: each for key, each in value.items() if each is not None}
    for key, each in fields.items():
        if each.required and key not in present:
            raise place.at(key).error("required key is missing")
    return {key: _check(each, fields[key].type, place.at(key)) for key, each in present.items()}


def _check_dict(value: Any, kind: inspect.DictType, place: _Place) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise place.error("must be a mapping", value)
    legal = kind.key_type.values if isinstance(kind.key_type, inspect.LiteralType) else ()
    for key in value:
        if legal and key not in legal:
            raise place.at(str(key)).error(f"unknown key{did_you_mean(str(key), map(str, legal))}", legal=tuple(legal))
    return {key: _check(each, kind.value_type, place.at(key)) for key, each in value.items() if each is not None}


def _check_number(value: Any, kind: inspect.IntType | inspect.FloatType, place: _Place) -> float:
    if isinstance(value, bool):
        raise place.error("must be a number, not a boolean", value)
    if not isinstance(value, int | float):
        units = ": 80 GB is 80e9, 80 GiB is 85899345920" if "bytes" in place.path else ""
        raise place.error(f"must be a plain number without quotes, underscores or units{units}", value)
    if not -1e300 < value < 1e300:
        raise place.error("must be a finite number", value)
    if isinstance(kind, inspect.IntType) and value != int(value):
        raise place.error("must be a whole number", value)
    bounds = ((">", kind.gt, gt), (">=", kind.ge, ge), ("<", kind.lt, lt), ("<=", kind.le, le))
    for sign, bound, holds in bounds:
        if bound is not None and not holds(value, bound):
            raise place.error(f"must be {sign} {bound:g}", value)
    return int(value) if isinstance(kind, inspect.IntType) else float(value)


def _unique(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise RuleError("keys must be text", field=str(key))
        if key in mapping:
            raise RuleError("the key occurs twice", field=key)
        mapping[key] = value
    return mapping


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: 1e12 is a number; on, 1_000 and 1:30 are text; repeated keys are errors."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's own way to start afresh)

    def construct_unique(self, node: yaml.MappingNode) -> dict[str, Any]:
        """Build a mapping at once, its parts included, so that a self-reference is an error."""
        construct = self.construct_object
        return _unique([(construct(key, deep=True), construct(value, deep=True)) for key, value in node.value])

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """Read a decimal number; a leading zero does not make it octal."""
        return int(self.construct_scalar(node))


_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_TAG = "tag:yaml.org,2002:"
for _name, _pattern, _first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", "[-+]?[0-9]+", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_integer)
_Loader.add_constructor(f"{_TAG}map", _Loader.construct_unique)


def parse_pairs(text: str, known: Sequence[str], source: str) -> dict[str, Any]:
    """Values by key of ``key=value,key=value``, each value as YAML reads it.

    Raises:
        InputError: an unknown or repeated key, or one without a value.
    """
    given: dict[str, Any] = {}
    for pair in text.split(","):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in known:
            raise InputError(f"unknown key{did_you_mean(key, known)}", source=source, field=key, legal=known)
        if not value:
            raise InputError("a value is missing: key=value", source=source, field=key)
        if key in given:
            raise InputError("the key occurs twice", source=source, field=key)
        given[key] = parse(f"value: {value}", source)["value"]
    return given
