"""A strategy of disaggregated serving: a pool of replicas that prefill and one of replicas that decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from lts_bench.space.check import Checked, check_strategy, require_legal
from lts_bench.space.strategy import Degrees, Strategy
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.failure import Failure, InputError, Violation
from lts_bench.specs.model import Model

POOLS = ("prefill", "decode")
"""The parts of a strategy, in the order in which their devices follow each other."""


@dataclass(frozen=True, slots=True)
class PoolDegrees:
    """The degrees of both pools."""

    prefill: Degrees
    decode: Degrees

    @property
    def devices(self) -> int:
        """Devices in use."""
        return self.prefill.devices + self.decode.devices

    def label(self) -> str:
        """The degrees in a line."""
        return f"prefill {self.prefill.label()} / decode {self.decode.label()}"


@dataclass(frozen=True)
class Disaggregated:
    """A strategy with two parts."""

    prefill: Strategy
    decode: Strategy

    @property
    def degrees(self) -> PoolDegrees:
        """The degrees of both."""
        return PoolDegrees(self.prefill.degrees, self.decode.degrees)

    def to_json(self) -> dict[str, Any]:
        """The document that ``check_disaggregated`` reads back to the same strategy."""
        return {"prefill": self.prefill.to_json(), "decode": self.decode.to_json()}


@dataclass(frozen=True)
class CheckedPools:
    """A disaggregated strategy with all that is wrong with it; legal where ``violations`` is empty."""

    strategy: Disaggregated
    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]


def check_any(document: Any, model: Model, cluster: Cluster, source: str | None = None) -> Checked | CheckedPools:
    """Read and check a strategy of one or of two parts; see ``check_strategy`` and ``check_disaggregated``."""
    if isinstance(document, Mapping) and any(pool in document for pool in POOLS):
        return check_disaggregated(document, model, cluster, source)
    return check_strategy(document, model, cluster, source)


def legal_any(document: Any, model: Model, cluster: Cluster, source: str | None = None) -> Checked | CheckedPools:
    """Read and check a strategy of one or of two parts that must be legal.

    Raises:
        InputError: if it is not; the line names every broken rule.
    """
    checked = check_any(document, model, cluster, source)
    require_legal(checked.violations, source)
    return checked


def check_disaggregated(document: Any, model: Model, cluster: Cluster, source: str | None = None) -> CheckedPools:
    """Read and check a strategy with two parts.

    Raises:
        InputError: a part is missing or no strategy, there is something else, or replicas are left out.
    """
    if not isinstance(document, Mapping) or set(document) != set(POOLS):
        found = list(document) if isinstance(document, Mapping) else document
        raise InputError("needs a part for each pool and nothing else", source=source, value=found, legal=list(POOLS))
    parts = [_part(document[pool], pool, model, cluster, source) for pool in POOLS]
    strategy = Disaggregated(parts[0].strategy, parts[1].strategy)
    violations = [_named(each, pool) for pool, part in zip(POOLS, parts, strict=True) for each in part.violations]
    violations += _too_many_devices(cluster, strategy.degrees)
    idle = cluster.devices - strategy.degrees.devices
    used = f"{strategy.degrees.devices} of {cluster.devices} devices are used; the score divides by {cluster.devices}"
    return CheckedPools(strategy, tuple(violations), (used,) if idle > 0 else ())


def _part(document: Any, pool: str, model: Model, cluster: Cluster, source: str | None) -> Checked:
    if isinstance(document, Mapping) and document.get("replicas") is None:
        raise InputError("must be stated: pools share the devices", source=source, field=f"{pool}.replicas")
    return check_strategy(document, model, cluster, source)


def _named(violation: Violation, pool: str) -> Violation:
    return msgspec.structs.replace(violation, field=f"{pool}.{violation.field}", message=f"{pool}: {violation.message}")


def _too_many_devices(cluster: Cluster, degrees: PoolDegrees) -> Iterator[Violation]:
    if degrees.devices > cluster.devices:
        rule = f"devices of both pools <= {cluster.devices}"
        message = f"the pools need {degrees.prefill.devices} + {degrees.decode.devices} devices of {cluster.devices}"
        yield Violation(Failure.TOPOLOGY, rule, "replicas", degrees.devices, (cluster.devices,), message)
