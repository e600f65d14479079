"""A strategy: degrees, the sharding of every operator, and how a JSON document becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lts_bench.space.operators import Operator, operators
from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.model import Model

ALIASES = {"moe_tp": "etp", "moe_ep": "ep"}
FIELDS = ("replicas", "pp", "dp", "tp", "ep", "etp", "sharding", "stages", "redundant_experts", "padding")
DEGREE_FIELDS = ("replicas", "pp", "dp", "ep", "etp")


@dataclass(frozen=True, slots=True)
class Degrees:
    """Parallelism degrees; a stage has ``dp * tx * ty`` devices, shared by ``ep * etp`` expert ranks."""

    replicas: int
    pp: int
    dp: int
    tx: int
    ty: int
    ep: int
    etp: int

    @property
    def tp(self) -> int:
        """Size of the whole tensor-parallel group."""
        return self.tx * self.ty

    @property
    def stage(self) -> int:
        """Devices of one pipeline stage."""
        return self.dp * self.tx * self.ty

    @property
    def devices(self) -> int:
        """Devices in use."""
        return self.replicas * self.pp * self.stage

    def label(self) -> str:
        """The degrees in a line, e.g. ``replicas=1 pp=2 dp=4 tp=2x4 ep=32 etp=1``."""
        tp = f"{self.tx}x{self.ty}" if self.tx > 1 else f"{self.ty}"
        return f"replicas={self.replicas} pp={self.pp} dp={self.dp} tp={tp} ep={self.ep} etp={self.etp}"


@dataclass(frozen=True)
class Strategy:
    """A complete strategy.

    Attributes:
        sharding: every operator's choice, one letter an axis.
        stages: layers of each pipeline stage.
        explicit: keys of ``sharding`` that were given and not filled in by Megatron's pattern.
        redundant_experts: extra copies of the most loaded experts.
        padding: whether heads, blocks and experts that do not divide are padded, the waste charged.
    """

    degrees: Degrees
    sharding: dict[str, tuple[str, ...]]
    stages: tuple[int, ...]
    explicit: frozenset[str] = field(default=frozenset(), compare=False)
    redundant_experts: int = 0
    padding: bool = False

    def to_json(self) -> dict[str, Any]:
        """The document that ``parse_strategy`` reads back to the same strategy."""
        degrees = self.degrees
        document: dict[str, Any] = {
            "replicas": degrees.replicas,
            "pp": degrees.pp,
            "dp": degrees.dp,
            "tp": [degrees.tx, degrees.ty] if degrees.tx > 1 else degrees.ty,
            "ep": degrees.ep,
            "etp": degrees.etp,
            "sharding": {key: list(choice) for key, choice in sorted(self.sharding.items())},
        }
        if self.stages != even_stages(sum(self.stages), degrees.pp):
            document["stages"] = list(self.stages)
        if self.redundant_experts:
            document["redundant_experts"] = self.redundant_experts
        if self.padding:
            document["padding"] = True
        return document


def even_stages(layers: int, pp: int) -> tuple[int, ...]:
    """Layer counts of ``pp`` stages, no more than there are layers: equal, but the first ``layers % pp`` one more."""
    stages = min(pp, layers)
    base, more = divmod(layers, stages)
    return tuple(base + (stage < more) for stage in range(stages))


@dataclass(frozen=True)
class Draft:
    """A strategy as written: well formed, not yet checked; ``replicas``, ``ep``, ``etp`` may be open."""

    replicas: int | None
    pp: int
    dp: int
    tx: int
    ty: int
    ep: int | None
    etp: int | None
    dp_attention: int | None
    sharding: dict[str, tuple[str, ...]]
    stages: tuple[int, ...] | None
    redundant_experts: int
    padding: bool


def parse_draft(document: Any, model: Model, source: str | None = None) -> Draft:
    """Read a strategy document.

    Raises:
        InputError: on an unknown field, operator or letter, or a value of the wrong type.
    """
    if not isinstance(document, Mapping):
        raise InputError("a strategy is a mapping", source=source, value=document)
    given = _rename(document, source)
    numbers = {name: _positive(given.get(name), name, source) for name in DEGREE_FIELDS}
    tx, ty = _tensor_axes(given.get("tp"), source)
    stages = given.get("stages")
    return Draft(
        replicas=numbers["replicas"],
        pp=numbers["pp"] or 1,
        dp=numbers["dp"] or 1,
        tx=tx,
        ty=ty,
        ep=numbers["ep"],
        etp=numbers["etp"],
        dp_attention=_positive(given.get("dp_attention"), "dp_attention", source),
        sharding=_sharding(given.get("sharding"), operators(model), source),
        stages=None if stages is None else _stages(stages, source),
        redundant_experts=_count(given.get("redundant_experts"), "redundant_experts", source),
        padding=_flag(given.get("padding"), "padding", source),
    )


def _rename(document: Mapping[str, Any], source: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in document.items():
        known = ALIASES.get(name, name)
        if known not in FIELDS and known != "dp_attention":
            legal = [*FIELDS, "dp_attention", *ALIASES]
            raise InputError(
                f"unknown field{did_you_mean(str(name), legal)}", source=source, field=str(name), legal=legal
            )
        if known in given and given[known] != value:
            raise InputError(f"given twice, as {known} and {name}", source=source, field=known, value=value)
        given[known] = value
    return given


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positive(value: Any, name: str, source: str | None) -> int | None:
    if value is None:
        return None
    if not _is_int(value) or value < 1:
        raise InputError("must be an integer ≥ 1", source=source, field=name, value=value)
    return int(value)


def _count(value: Any, name: str, source: str | None) -> int:
    if value is None:
        return 0
    if not _is_int(value) or value < 0:
        raise InputError("must be an integer ≥ 0", source=source, field=name, value=value)
    return int(value)


def _flag(value: Any, name: str, source: str | None) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InputError("must be true or false", source=source, field=name, value=value)
    return bool(value)


def _tensor_axes(value: Any, source: str | None) -> tuple[int, int]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 2:
            raise InputError("must be an integer or [tx, ty]", source=source, field="tp", value=value)
        x, y = (_positive(each, "tp", source) or 1 for each in value)
        return x, y
    return 1, _positive(value, "tp", source) or 1


def _stages(value: Any, source: str | None) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(map(_is_int, value)):
        raise InputError("must be a list of layer counts", source=source, field="stages", value=value)
    return tuple(value)


def _sharding(value: Any, known: Sequence[Operator], source: str | None) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError("must map operators to letters", source=source, field="sharding", value=value)
    by_key = {operator.key: operator for operator in known}
    for key in value:
        if key not in by_key:
            raise InputError(
                f"unknown operator{did_you_mean(str(key), by_key)}",
                source=source,
                field=f"sharding.{key}",
                legal=list(by_key),
            )
    return {key: _choice(value[key], by_key[key], source) for key in value}


def _choice(value: Any, operator: Operator, source: str | None) -> tuple[str, ...]:
    letters = [value] if isinstance(value, str) else value
    shaped = isinstance(letters, Sequence) and 1 <= len(letters) <= operator.axes
    if not shaped or any(letter not in operator.letters for letter in letters):
        pair = "one letter" if operator.axes == 1 else "a letter, or a pair [x, y] of letters"
        raise InputError(
            f"must be {pair}", source=source, field=f"sharding.{operator.key}", value=value, legal=operator.letters
        )
    missing = ("R",) * (operator.axes - len(letters))
    return missing + tuple(letters)


def complete_sharding(
    given: Mapping[str, tuple[str, ...]], known: Sequence[Operator], tx: int, ty: int
) -> dict[str, tuple[str, ...]]:
    """Fill what is left out with Megatron's pattern on the whole group; axes of size 1 are written R."""
    complete: dict[str, tuple[str, ...]] = {}
    for operator in known:
        choice = given.get(operator.key, (operator.megatron,) * operator.axes)
        if operator.axes == 2:
            choice = ("R" if tx == 1 else choice[0], "R" if ty == 1 else choice[1])
        complete[operator.key] = choice
    return complete
