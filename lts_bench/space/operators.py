"""The operators whose sharding is chosen: their keys, what each may be split on, and Megatron's pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lts_bench.specs.layers import Layer
from lts_bench.specs.model import Model

MATMUL = ("M", "K", "N", "R")
"""Tokens, contraction, output features, none."""
CORE = ("heads", "batch", "kv_sequence", "R")
LINEAR_CORE = ("heads", "batch", "R")
STREAM = ("R", "M", "N")
ROUTER = ("R", "M")
LOOKUP = ("vocabulary", "hidden", "M", "R")

MEGATRON = {
    "stream": "R",
    "attention.qkv": "N",
    "attention.q_down": "R",
    "attention.q_up": "N",
    "attention.kv_down": "R",
    "attention.kv_up": "N",
    "attention.core": "heads",
    "attention.out": "K",
    "ffn.up": "N",
    "ffn.down": "K",
    "shared.up": "N",
    "shared.down": "K",
    "router": "R",
    "experts.up": "N",
    "experts.down": "K",
    "embed": "vocabulary",
    "head": "vocabulary",
}
"""Megatron's split of every operator over the whole tensor-parallel group (Megatron-LM, arXiv 1909.08053)."""


@dataclass(frozen=True)
class Operator:
    """One sharding decision: an operator of a layer kind, or ``embed`` and ``head``.

    Attributes:
        key: name in a strategy, ``<layer kind>.<operator>``.
        name: the operator's own name.
        letters: what one axis may be split on.
        axes: 2 for (x, y); 1 for the expert-tensor axis.
    """

    key: str
    name: str
    letters: tuple[str, ...]
    axes: int

    @cached_property
    def choices(self) -> tuple[tuple[str, ...], ...]:
        """Every choice, x-major."""
        if self.axes == 1:
            return tuple((letter,) for letter in self.letters)
        return tuple((x, y) for x in self.letters for y in self.letters)

    @property
    def megatron(self) -> str:
        """The letter of Megatron's pattern."""
        return MEGATRON[self.name]

    def index(self, choice: tuple[str, ...]) -> int:
        """Index of a choice."""
        return self.choices.index(choice)


def _letters(name: str, layer: Layer) -> tuple[str, ...]:
    if name == "attention.core":
        return LINEAR_CORE if layer.mixer_name == "linear" else CORE
    return ROUTER if name == "router" else MATMUL


def _layer_operators(kind: str, layer: Layer, hidden: int) -> list[Operator]:
    names = ["stream"]
    for name in layer.operators(hidden):
        if name == "attention.out":
            names.append("attention.core")
        names.append(name)
    return [
        Operator(
            f"{kind}.{name}",
            name,
            STREAM if name == "stream" else _letters(name, layer),
            1 if name.startswith("experts.") else 2,
        )
        for name in names
    ]


def operators(model: Model) -> tuple[Operator, ...]:
    """All sharding decisions of a model: layer kinds in order of appearance, then embedding and head."""
    found: dict[str, Operator] = {}
    for layer in dict.fromkeys(model.layers):
        for operator in _layer_operators(model.kind_of(layer), layer, model.hidden):
            found.setdefault(operator.key, operator)
    kinds = list(model.kinds)
    ordered = sorted(found.values(), key=lambda operator: kinds.index(operator.key.split(".")[0]))
    return (*ordered, Operator("embed", "embed", LOOKUP, 2), Operator("head", "head", LOOKUP, 2))
