"""What a stored row must be like: small named checks, each of which tells every field that is wrong.

L0: well-formed, judged by the row alone. L1: re-scored on the row's instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from lts_bench.budget import parse_budget
from lts_bench.exact.certificates import Certificate
from lts_bench.results.final_replay import final_replay
from lts_bench.results.rescoring import TOLERANCE, best_of, rescored, same
from lts_bench.results.schema import Best, Replay, Row, Status
from lts_bench.specs.failure import InputError
from lts_bench.task import Task


class Problem(NamedTuple):
    """A field that is wrong, and why."""

    field: str
    message: str


Problems = Iterator[Problem]


@dataclass(frozen=True)
class Evidence:
    """A row and what it is judged by.

    Attributes:
        nominal: the row's task.
        task: the same on the machine of the row's instance.
        certificate: of that instance.
    """

    row: Row
    nominal: Task
    task: Task
    certificate: Certificate

    @cached_property
    def points(self) -> list[Best | InputError]:
        """The trace's vectors, scored again; an error for one that cannot be."""
        found: list[Best | InputError] = []
        for point in self.row.trace:
            try:
                found.append(best_of(self.task, np.array(point.vector, dtype=np.int64)))
            except InputError as error:
                found.append(error)
        return found


def check_run_id(row: Row) -> Problems:
    """The id is the digest of the row's identity."""
    if row.run_id != row.expected_run_id:
        yield Problem("run_id", f"is not the digest of the row's identity, {row.expected_run_id}")


def check_instance(row: Row) -> Problems:
    """Seed i runs on instance i."""
    if row.instance != row.seed:
        yield Problem("instance", f"is {row.instance}, seed {row.seed} runs on instance {row.seed}")


def check_budget(row: Row) -> Problems:
    """No evaluation lies beyond the budget, no improvement beyond the evaluations."""
    try:
        limit = parse_budget(row.budget).evaluations
    except InputError as error:
        yield Problem("budget", str(error))
        return
    used = row.cost.evaluations
    if used > limit:
        yield Problem("cost.evaluations", f"is {used}, the budget {limit}")
    for index, point in enumerate(row.trace):
        if point.evaluation > (last := min(used, limit)):
            yield Problem(f"trace[{index}].evaluation", f"is {point.evaluation}, the last evaluation {last}")


def check_status(row: Row) -> Problems:
    """A cell that is ok has a best strategy, one without a solution none; the trace begins at the first feasible."""
    unsolved = (Status.NO_SOLUTION, Status.INVALID)
    if row.status is Status.OK and row.best is None:
        yield Problem("status", "is ok without a best strategy")
    if row.status in unsolved and row.best is not None:
        yield Problem("status", f"is {row.status} with a best strategy")
    first = row.trace[0].evaluation if row.trace else None
    if row.first_feasible != first:
        yield Problem("first_feasible", f"is {row.first_feasible}, the trace begins with {first}")


def check_task(row: Row, task: Task) -> Problems:
    """The digests are those of the suite's task of that name."""
    for field, found in (("task_digest", task.digest), ("space_digest", task.space.digest)):
        if getattr(row, field) != found:
            yield Problem(field, f"is not that of the suite's task, {found}")


def check_best(evidence: Evidence) -> Problems:
    """The final strategy is the trace's last one and answers what the row says."""
    best = evidence.row.best
    if best is None:
        return
    last = evidence.points[-1]
    if isinstance(last, Best) and best.strategy != last.strategy:
        yield Problem("best.strategy", "is not the last of the trace")
    try:
        found = rescored(evidence.task, best.strategy)
    except InputError as error:
        yield Problem("best.strategy", str(error))
        return
    for field in Best.__struct_fields__:
        stored, again = getattr(best, field), getattr(found, field)
        if stored != again and not (isinstance(stored, float) and isinstance(again, float) and same(stored, again)):
            yield Problem(f"best.{field}", f"is {stored}, re-scored {again}")


def check_trace(evidence: Evidence) -> Problems:
    """Every improvement is feasible and reaches the goodput that the row says."""
    for index, (point, found) in enumerate(zip(evidence.row.trace, evidence.points, strict=True)):
        if isinstance(found, InputError):
            yield Problem(f"trace[{index}].vector", str(found))
        elif not same(point.goodput_per_npu, found.goodput_per_npu):
            message = f"is {point.goodput_per_npu}, re-scored {found.goodput_per_npu}"
            yield Problem(f"trace[{index}].goodput_per_npu", message)


def check_replay(evidence: Evidence) -> Problems:
    """The replay of the trace's last strategy tells what the row says."""
    stored, last = evidence.row.replay, evidence.points[-1] if evidence.points else None
    if isinstance(last, InputError):
        return
    found = None if last is None else final_replay(evidence.task, last)
    if stored is None or found is None:
        if stored is not found:
            wrong = "is missing: run the cell again" if stored is None else "is there, and there is nothing to replay"
            yield Problem("replay", wrong)
        return
    for field in Replay.__struct_fields__:
        told, again = getattr(stored, field), getattr(found, field)
        if told != again and (told is None or again is None or not same(told, again)):
            yield Problem(f"replay.{field}", f"is {told}, replayed again {again}")


def check_optimum(evidence: Evidence) -> Problems:
    """The optimum is the certificate's."""
    optimum, certificate = evidence.row.optimum, evidence.certificate
    if optimum is None:
        yield Problem("optimum", "is missing")
    elif not same(optimum.goodput_per_npu, certificate.optimum):
        yield Problem("optimum.goodput_per_npu", f"is {optimum.goodput_per_npu}, certified {certificate.optimum}")
    elif optimum.certified != certificate.certified:
        yield Problem("optimum.certified", f"is {optimum.certified}, the certificate's {certificate.certified}")


def check_regret(evidence: Evidence) -> Problems:
    """The regret is 1 − score."""
    row = evidence.row
    expected = None if row.optimum is None else 1 - row.score
    if row.regret is None or expected is None or not same(row.regret, expected):
        yield Problem("regret", f"is {row.regret}, 1 − score is {expected}")


def check_bound(evidence: Evidence) -> Problems:
    """Nothing exceeds the certificate's bound."""
    bound = evidence.certificate.bound
    for index, point in enumerate(evidence.row.trace):
        if point.goodput_per_npu > bound * (1 + TOLERANCE):
            yield Problem(f"trace[{index}].goodput_per_npu", f"{point.goodput_per_npu} exceeds the bound, {bound}")


def check_reference(evidence: Evidence) -> Problems:
    """The reference is the task's published number."""
    stored, found = evidence.row.reference, evidence.nominal.reference.goodput_per_npu
    if not same(stored, found):
        yield Problem("reference", f"is {stored}, the task's {found}")


def check_certificate(task: Task, certificate: Certificate) -> Problems:
    """A certificate's strategy reaches its goodput on its machine, and its bound is not below that."""
    try:
        found = rescored(task, certificate.strategy).goodput_per_npu
    except InputError as error:
        yield Problem("strategy", str(error))
        return
    if not same(certificate.goodput_per_npu, found):
        yield Problem("goodput_per_npu", f"is {certificate.goodput_per_npu}, re-scored {found}")
    if certificate.bound < certificate.goodput_per_npu * (1 - TOLERANCE):
        yield Problem("bound", f"{certificate.bound} is below the goodput, {certificate.goodput_per_npu}")


L0: Mapping[str, Callable[[Row], Problems]] = {
    "run_id": check_run_id,
    "instance": check_instance,
    "budget": check_budget,
    "status": check_status,
}
L1: Mapping[str, Callable[[Evidence], Problems]] = {
    "best": check_best,
    "trace": check_trace,
    "replay": check_replay,
    "optimum": check_optimum,
    "regret": check_regret,
    "bound": check_bound,
    "reference": check_reference,
}


class Record(msgspec.Struct, frozen=True):
    """The outcome of one check; ``field`` and ``message`` are empty where there is nothing to tell."""

    level: str
    name: str
    ok: bool
    file: str
    field: str = ""
    message: str = ""


def records(level: str, name: str, file: str, problems: Problems) -> Iterator[Record]:
    """Return a record for each problem, or one that there is none."""
    found = list(problems)
    for field, message in found:
        yield Record(level, name, False, file, field, message)
    if not found:
        yield Record(level, name, True, file)
