"""The row: what one finished cell leaves behind, as JSON with a version."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from lts_bench.results.identity import run_id
from lts_bench.results.upgrades import UPGRADES, upgraded
from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.loading import RuleError

SCHEMA_VERSION = 3
VERSIONS = (*sorted(UPGRADES), SCHEMA_VERSION)
"""What can be read."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class Status(StrEnum):
    """How a cell ended."""

    OK = "ok"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    INVALID = "invalid"
    NO_SOLUTION = "no_solution"


FAILED = (Status.CRASH, Status.OOM, Status.INVALID, Status.NO_SOLUTION)
"""What scores 0, whatever was found before; a timeout ends a search and keeps its best."""


class Point(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An improvement: the evaluation (counted from 1) that found a better feasible strategy.

    In JSON a list: [evaluation, seconds, tokens/s and NPU, vector]. The vector is of the space that the row's
    ``space_digest`` names.
    """

    evaluation: Annotated[int, msgspec.Meta(ge=1)]
    seconds: Amount
    goodput_per_npu: Amount
    vector: tuple[Count, ...]


class Best(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The best feasible strategy and what it answers; ``slo_margin`` is the least ``1 - x / limit``."""

    strategy: dict[str, Any]
    goodput_per_npu: Amount
    ttft_s: Amount
    tpot_s: Amount
    memory_bytes: Amount
    slo_met: bool
    slo_margin: float | None


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a replay of the best strategy at the offered load tells.

    Attributes:
        offered_requests_per_s: a share of the predicted rate.
        attainment: share of the requests that meet all limits.
        goodput_per_npu: tokens/s and NPU at the highest rate whose attainment reaches the percentile of the SLO; None
            where the SLO bounds no rate.
    """

    offered_requests_per_s: Amount
    attainment: Annotated[float, msgspec.Meta(ge=0, le=1)]
    goodput_per_npu: Amount | None


class Optimum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The best goodput there is on the cell's instance (``certified``), or a bound on it."""

    goodput_per_npu: Annotated[float, msgspec.Meta(gt=0)]
    certified: bool


class Cost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the cell took."""

    evaluations: Count
    unique: Count
    infeasible: Count
    illegal: Count
    wall_s: Amount
    agent_cpu_s: Amount
    cost_model_s: Amount
    peak_memory_bytes: Count


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and with what the cell ran."""

    cost_model: str
    package: str
    commit: str | None
    dirty: bool | None
    lock_digest: str
    agent_digest: str
    python: str
    platform: str
    cpu: str
    cores: Count
    threads: Count
    utc: str


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cell: identity, outcome, cost and provenance."""

    schema_version: int = SCHEMA_VERSION
    run_id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    task: str
    task_digest: str
    space_digest: str
    track: str
    agent: str
    version: str
    parameters: dict[str, Any]
    seed: Count
    instance: Count
    budget: str
    isolation: str
    status: Status
    error: str | None
    best: Best | None
    replay: Replay | None
    first_feasible: Annotated[int, msgspec.Meta(ge=1)] | None
    reference: Annotated[float, msgspec.Meta(gt=0)]
    optimum: Optimum | None
    regret: float | None
    trace: tuple[Point, ...]
    trace_digest: str
    cost: Cost
    provenance: Provenance

    def __post_init__(self) -> None:
        """Hold the trace to its promise: strictly improving, its last point the best."""
        for before, after in pairwise(self.trace):
            if not (before.goodput_per_npu < after.goodput_per_npu and before.evaluation < after.evaluation):
                raise RuleError("points must improve strictly", field="trace")
        last = self.trace[-1].goodput_per_npu if self.trace else None
        if last != (self.best.goodput_per_npu if self.best else None):
            raise RuleError("its last point must be the best", field="trace")
        if self.trace_digest != trace_digest(self.trace):
            raise RuleError("does not belong to the trace", field="trace_digest")

    @property
    def label(self) -> str:
        """How the agent is called."""
        return f"{self.agent}@{self.version}"

    @property
    def expected_run_id(self) -> str:
        """The run id that belongs to the row's identity."""
        return run_id(
            task=self.task,
            task_digest=self.task_digest,
            space_digest=self.space_digest,
            cost_model=self.provenance.cost_model,
            instance=self.instance,
            agent=self.agent,
            version=self.version,
            parameters=self.parameters,
            track=self.track,
            seed=self.seed,
            budget=self.budget,
        )

    @property
    def score(self) -> float:
        """Share of the instance's optimum that was found, 0 for a failed cell.

        Raises:
            InputError: the row is of a cost model without certified optima.
        """
        if self.optimum is None:
            cost_model = self.provenance.cost_model
            rule = "there is none in rows of this cost model: run the cell again"
            raise InputError(rule, source=self.run_id, field="optimum", value=cost_model)
        return score_of(self.status, self.best, self.optimum)


def score_of(status: Status, best: Best | None, optimum: Optimum) -> float:
    """Share of the optimum that a cell's best goodput is, 0 for a failed cell; regret is what lacks to 1."""
    return 0.0 if best is None or status in FAILED else best.goodput_per_npu / optimum.goodput_per_npu


def trace_digest(trace: tuple[Point, ...]) -> str:
    """Digest a trace without its seconds, so that re-runs agree."""
    points = [[point.evaluation, point.goodput_per_npu, point.vector] for point in trace]
    return hashlib.sha256(msgspec.json.encode(points)).hexdigest()


def outcome(row: Row) -> dict[str, Any]:
    """Return what re-runs of a cell must agree in: identity and outcome, neither cost, provenance nor isolation."""
    data: dict[str, Any] = msgspec.to_builtins(row)
    # The digest stands for the trace without its seconds.
    for name in ("cost", "provenance", "isolation", "error", "trace"):
        del data[name]
    return data


def encode_row(row: Row) -> bytes:
    """Return the row as one line of JSON with sorted keys.

    Raises:
        InputError: a number is not finite.
    """
    data = msgspec.to_builtins(row)
    for field, number in _floats(data, ""):
        if not math.isfinite(number):
            raise InputError("must be a finite number", source=row.run_id, field=field, value=number)
    return msgspec.json.encode(data, order="sorted") + b"\n"


def decode_row(data: bytes, source: str) -> Row:
    """Read a row.

    Args:
        data: one JSON document.
        source: the file, and the line if there are several, for messages.

    Raises:
        InputError: not JSON, an unknown schema version, a missing, unknown or wrong field.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a JSON document: {error}", source=source) from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version not in VERSIONS:
        raise InputError("unknown schema version", source=source, field="schema_version", value=version, legal=VERSIONS)
    try:
        return msgspec.convert(document if version == SCHEMA_VERSION else upgraded(document, source), Row)
    except msgspec.ValidationError as error:
        broken = error.__cause__
        if isinstance(broken, RuleError):
            raise InputError(broken.rule, source=source, field=broken.field) from None
        raise _explained(str(error), source) from None


def _explained(message: str, source: str) -> InputError:
    rule, _, path = message.partition(" - at ")
    unknown = re.search("unknown field `(.*?)`", rule)
    missing = re.search("missing required field `(.*?)`", rule)
    named = unknown or missing
    field = ".".join([*path.strip("`$").strip(".").split(), *([named[1]] if named else [])])
    known = [name for part in (Row, Point, Best, Replay, Optimum, Cost, Provenance) for name in part.__struct_fields__]
    hint = did_you_mean(unknown[1], known) if unknown else ""
    return InputError(rule + hint, source=source, field=field or None)


def _floats(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _floats(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _floats(item, f"{path}[{index}]")
