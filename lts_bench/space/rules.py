"""Every legality rule, once: divisibility, quantisation blocks, topology."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TypeAlias

from lts_bench.space.operators import Operator, operators
from lts_bench.space.strategy import Degrees
from lts_bench.specs.failure import Failure
from lts_bench.specs.layers import Attention, DenseFfn, LatentAttention, Layer, MoeFfn
from lts_bench.specs.model import Model


@dataclass(frozen=True, slots=True)
class Extent:
    """What a letter divides.

    Attributes:
        name: the config's word for it.
        size: indivisible units.
        width: features of one unit.
        block: features that share a quantisation scale along this direction, 1 for none.
        replicable: fewer units than devices are replicated (KV heads).
    """

    name: str
    size: int
    width: int = 1
    block: int = 1
    replicable: bool = False

    def divisible(self, degree: int) -> bool:
        """Whether ``degree`` devices get whole units."""
        return self.size % degree == 0 or (self.replicable and degree % self.size == 0)

    def whole_blocks(self, degree: int) -> bool:
        """Whether every device's features are whole quantisation blocks; an unsplit operator always passes."""
        local = max(self.size // degree, 1) * self.width
        return degree == 1 or self.block == 1 or local % self.block == 0


@dataclass(frozen=True, slots=True)
class Breach:
    """One extent that a degree does not divide, or whose blocks it cuts."""

    failure: Failure
    extent: Extent
    degree: int

    @property
    def rule(self) -> str:
        """The rule in words."""
        name, size = self.extent.name, self.extent.size
        if self.failure is Failure.BLOCK:
            return f"{name} / p must be a multiple of the quantisation block {self.extent.block}"
        other = f" or p % {size} == 0" if self.extent.replicable else ""
        return f"{name} {size} % p == 0{other}"


def breaches(extents: tuple[Extent, ...], degree: int) -> Iterator[Breach]:
    """The rules that splitting over ``degree`` devices breaks."""
    for extent in extents:
        if not extent.divisible(degree):
            yield Breach(Failure.DIVISIBILITY, extent, degree)
        elif not extent.whole_blocks(degree):
            yield Breach(Failure.BLOCK, extent, degree)


def _mixer_extents(layer: Layer, hidden: int, name: str, letter: str) -> tuple[Extent, ...]:
    mixer = layer.mixer
    matrix = layer.operators(hidden).get(f"attention.{name}")
    width = 1
    if matrix is not None:
        width = matrix.unit_k if name == "out" else matrix.unit_n
    assert mixer is not None
    heads = Extent("num_attention_heads", mixer.heads, width)
    if letter == "heads" or (name, letter) in {("qkv", "N"), ("q_up", "N"), ("kv_up", "N"), ("out", "K")}:
        if isinstance(mixer, Attention) and (name == "qkv" or letter == "heads"):
            return heads, Extent("num_key_value_heads", mixer.kv_heads, mixer.head_dim, replicable=True)
        return (heads,)
    if isinstance(mixer, LatentAttention):
        latent = {
            ("q_down", "N"): Extent("q_lora_rank", mixer.q_rank or hidden),
            ("q_up", "K"): Extent("q_lora_rank", mixer.q_rank) if mixer.q_rank else Extent("hidden_size", hidden),
            ("kv_down", "N"): Extent("kv_lora_rank + qk_rope_head_dim", mixer.kv_elements),
            ("kv_up", "K"): Extent("kv_lora_rank", mixer.kv_rank),
        }
        if (name, letter) in latent:
            return (latent[name, letter],)
    return (Extent("hidden_size", hidden),) if letter in "KN" else ()


def _ffn_extents(layer: Layer, hidden: int, name: str, letter: str) -> tuple[Extent, ...]:
    ffn = layer.ffn
    if isinstance(ffn, DenseFfn):
        width = Extent("intermediate_size", ffn.width)
    else:
        assert isinstance(ffn, MoeFfn)
        shared = name.startswith("shared.")
        width = (
            Extent("shared_expert_intermediate_size", ffn.shared_width)
            if shared
            else Extent("moe_intermediate_size", ffn.width)
        )
    if letter not in ("K", "N"):
        return ()
    outer = (name.endswith(".up") and letter == "K") or (name.endswith(".down") and letter == "N")
    return (Extent("hidden_size", hidden),) if outer else (width,)


def extents(model: Model, layer: Layer | None, name: str, letter: str) -> tuple[Extent, ...]:
    """What splitting operator ``name`` of ``layer`` on ``letter`` divides; nothing for tokens and replication.

    ``embed`` and ``head`` have no layer; their vocabulary is padded, never refused.
    """
    if layer is None or name == "stream":
        return (Extent("hidden_size", model.hidden),) if letter in ("hidden", "N") else ()
    if name.startswith("attention."):
        found = _mixer_extents(layer, model.hidden, name.removeprefix("attention."), letter)
    else:
        found = () if name == "router" else _ffn_extents(layer, model.hidden, name, letter)
    matrix = layer.operators(model.hidden).get(name)
    block = model.precision.weights(matrix.group).block if matrix else None
    if block is None or letter not in ("K", "N"):
        return found
    return tuple(replace(each, block=block[letter == "K"]) for each in found)


Limits: TypeAlias = frozenset[tuple[str, tuple[Extent, ...]]]
"""What each letter of an operator divides."""


class OperatorRules:
    """The legality of every operator's choices for one model, remembered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.operators = operators(model)
        self._layers: dict[str, list[Layer | None]] = {}
        for layer in dict.fromkeys(model.layers):
            self._layers.setdefault(model.kind_of(layer), []).append(layer)
        self._known: dict[tuple[str, str, int], tuple[Breach, ...]] = {}
        self._limits: dict[str, Limits] = {}

    def breaches(self, operator: Operator, choice: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[Breach, ...]:
        """The rules that one operator's choice breaks on axes of the given sizes."""
        found: list[Breach] = []
        for letter in dict.fromkeys(choice):
            degree = prod(size for each, size in zip(choice, sizes, strict=True) if each == letter)
            found += self._letter_breaches(operator, letter, degree)
        return tuple(found)

    def _letter_breaches(self, operator: Operator, letter: str, degree: int) -> tuple[Breach, ...]:
        key = (operator.key, letter, degree)
        if key not in self._known:
            layers = self._layers.get(operator.key.split(".")[0], [None])
            found = {
                (breach.failure, breach.extent.name): breach
                for layer in layers
                for breach in breaches(extents(self.model, layer, operator.name, letter), degree)
            }
            self._known[key] = tuple(found.values())
        return self._known[key]

    def limits(self, operator: Operator) -> Limits:
        """What every letter of an operator divides: operators with equal limits have the same legal choices."""
        if operator.key not in self._limits:
            layers = self._layers.get(operator.key.split(".")[0], [None])
            self._limits[operator.key] = frozenset(
                (letter, extents(self.model, layer, operator.name, letter))
                for layer in layers
                for letter in operator.letters
            )
        return self._limits[operator.key]

    def legal_choices(self, operator: Operator, sizes: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        """The choices that break no rule; an axis of size 1 is written R."""
        return tuple(
            choice
            for choice in operator.choices
            if all(letter == "R" for letter, size in zip(choice, sizes, strict=True) if size == 1)
            and not self.breaches(operator, choice, sizes)
        )

    def megatron_tp(self, limit: int | None = None) -> tuple[int, ...]:
        """Tensor-parallel degrees at which Megatron's pattern is legal; experts are sharded over their own axis."""
        most = max((layer.mixer.heads for layer in self.model.layers if layer.mixer), default=1)
        return tuple(
            tp
            for tp in range(1, min(limit or most, most) + 1)
            if not any(
                self.breaches(operator, ("R", operator.megatron), (1, tp))
                for operator in self.operators
                if operator.axes == 2
            )
        )


def nests(etp: int, tx: int, ty: int, dp: int) -> bool:
    """Whether an expert-tensor group of ``etp`` devices is made of whole axes and one whole part of an axis.

    Devices of a stage are numbered (dp, tx, ty) with ty innermost, and consecutive ones form the group.
    """
    if etp <= ty:
        return ty % etp == 0
    if etp <= tx * ty:
        return etp % ty == 0 and tx % (etp // ty) == 0
    return etp % (tx * ty) == 0 and dp % (etp // (tx * ty)) == 0


def experts_of(model: Model) -> int:
    """Experts of the model's MoE layers, 0 for a dense model; with several sizes, their greatest common divisor."""
    return gcd(*(layer.ffn.experts for layer in model.layers if isinstance(layer.ffn, MoeFfn)))


def divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """All divisors, or those up to ``most``, ascending; (1,) for 0."""
    end = number if most is None else min(number, most)
    return tuple(d for d in range(1, end + 1) if number % d == 0) or (1,)


def axis_sizes(degrees: Degrees, operator: Operator) -> tuple[int, ...]:
    """Sizes of the axes that an operator's letters refer to."""
    return (degrees.etp,) if operator.axes == 1 else (degrees.tx, degrees.ty)
