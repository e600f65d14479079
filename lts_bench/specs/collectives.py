"""What a communication library reaches on a scale-up network: constants of its collectives and of expert exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.loading import AtLeastOne, Count, NonNegative, Positive, RuleError, Share

REGIMES = 3
"""The most regimes of a collective."""

Kind = Literal["all_reduce", "all_gather", "all_to_all", "expert_exchange"]


def _limit(field: str, regimes: tuple[Any, ...]) -> None:
    if not 1 <= len(regimes) <= REGIMES:
        raise RuleError(f"must hold 1 to {REGIMES} regimes", field=field, value=len(regimes))


class Regime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One regime of a collective on p devices, a protocol or algorithm of the library.

    latency_us + latency_per_device_us · (p − 2) + volume / (min(efficiency · (p / 2)^efficiency_growth, 1) · rate)
    with a volume of 2n(p − 1)/p of an all-reduce of n bytes, else n(p − 1)/p. On a torus latency_us is that of a hop.
    """

    latency_us: NonNegative
    efficiency: Share
    latency_per_device_us: NonNegative = 0.0
    efficiency_growth: float = 0.0


class CustomAllReduce(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An engine's own all-reduce kernels.

    Attributes:
        devices: the largest group that they reach inside a domain; None for the whole domain.
        eager_us: the least time of a call outside a captured graph.
    """

    regimes: tuple[Regime, ...]
    devices: Count | None = None
    eager_us: NonNegative = 0.0

    def __post_init__(self) -> None:
        _limit("regimes", self.regimes)


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One regime of an exchange over m domains, the bytes at ``1 / slowdown`` of the exchange's rates.

    latency_us + latency_per_doubling_us · log2 m + slowdown · the time of its bytes.
    """

    latency_us: NonNegative
    latency_per_doubling_us: NonNegative = 0.0
    slowdown: AtLeastOne = 1.0


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One direction of an expert exchange: the lesser of its regimes; the slower of its two networks counts.

    Attributes:
        efficiency: share of the scale-up rate.
        crossing_efficiency: share of the scale-out rate over 2, 4, 8, … domains; the last one beyond.
        bytes_per_s_per_sm: what one multiprocessor copies, where few of them carry the exchange.
    """

    regimes: tuple[Stage, ...]
    efficiency: Share
    crossing_efficiency: tuple[Share, ...]
    bytes_per_s_per_sm: Positive | None = None

    def __post_init__(self) -> None:
        _limit("regimes", self.regimes)
        if not self.crossing_efficiency:
            raise RuleError("must hold a share at least", field="crossing_efficiency")


class ExchangeMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tokens to their experts and back.

    Attributes:
        sms: multiprocessors that carry the exchange unless told otherwise.
    """

    dispatch: Exchange
    combine: Exchange
    sms: Count = 20


class ExpertExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The two ways tokens reach their experts.

    Attributes:
        low_latency: a copy for every expert, straight to its device; in decode.
        normal: a copy for every other domain, spread inside it to every device once; in prefill.
    """

    low_latency: ExchangeMode
    normal: ExchangeMode


class Collectives(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Constants of a library on one kind of scale-up network.

    Attributes:
        all_reduce: regimes of the vendor's library (NCCL, RCCL, …).
        all_gather: the same of an all-gather and a reduce-scatter.
        all_to_all: the same of an all-to-all and a message between two devices.
        custom_all_reduce: engines' own kernels by their name; groups out of their reach use the vendor's library.
        expert_exchange: None where tokens reach their experts by an all-to-all.
        relative_error: standard deviation of measured ÷ predicted, by kind.
    """

    all_reduce: tuple[Regime, ...]
    all_gather: tuple[Regime, ...]
    all_to_all: tuple[Regime, ...]
    relative_error: dict[Kind, NonNegative]
    custom_all_reduce: dict[str, CustomAllReduce] = {}
    expert_exchange: ExpertExchange | None = None

    def __post_init__(self) -> None:
        for kind in ("all_reduce", "all_gather", "all_to_all"):
            _limit(kind, getattr(self, kind))
            if kind not in self.relative_error:
                raise RuleError("required key is missing", field=f"relative_error.{kind}")


_SHELF = Shelf("collectives", Collectives, "lts_bench.data", "collectives")


def load_collectives(ref: str, named_in: Path | None = None) -> Collectives:
    """Load built-in constants by name (``nvlink4``), or a YAML file by path."""
    return _SHELF.load(ref, named_in)
