"""Typed reasons: why a strategy is not legal or feasible, why a cell failed, why an input is refused."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec


class Failure(StrEnum):
    """The failure classes, never confused with each other."""

    DIVISIBILITY = "DIVISIBILITY"
    BLOCK = "BLOCK"
    TOPOLOGY = "TOPOLOGY"
    MEMORY = "MEMORY"
    SLO = "SLO"
    INVALID = "INVALID"
    TIMEOUT = "TIMEOUT"
    CRASH = "CRASH"
    OOM = "OOM"


class Violation(msgspec.Struct, frozen=True, rename={"failure": "class"}):
    """One broken rule of a strategy.

    Attributes:
        failure: DIVISIBILITY, BLOCK, TOPOLOGY, MEMORY or SLO (``class`` in JSON).
        rule: the rule in words, e.g. ``heads % p == 0``.
        field: the field of the strategy that breaks it, e.g. ``moe.attention.qkv``.
        value: the offending value.
        legal_values: what would be legal there, all else unchanged.
        message: one line for people.
    """

    failure: Failure
    rule: str
    field: str
    value: Any
    legal_values: tuple[Any, ...]
    message: str


class InputError(ValueError):
    """Bad input, told in one line: file, field, value, rule, what would be legal."""

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        field: str | None = None,
        value: Any = None,
        legal: Sequence[Any] = (),
    ) -> None:
        self.source, self.field, self.value, self.legal = source, field, value, tuple(legal)
        where = ": ".join(part for part in (source, field) if part)
        shown = f" (got {value!r})" if value is not None else ""
        allowed = f"; legal: {', '.join(map(str, legal))}" if legal else ""
        line = f"{where + ': ' if where else ''}{message}{shown}{allowed}"
        super().__init__(" ".join(line.split()))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the known word nearest to ``word``, or an empty string."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
