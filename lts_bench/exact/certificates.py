"""Certificates: the best strategy of each instance of a task, and the bound that proves it.

An instance is a machine whose constants are drawn within their errors. A draw on which no strategy is certified to be
the best feasible one is drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Any

import msgspec

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.optimum import optimum
from lts_bench.exact.search import SAME
from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import Positive
from lts_bench.task import Task

DRAWS = 50
"""Draws of an instance that are tried."""
ENDING = ".jsonl"

Number = Annotated[int, msgspec.Meta(ge=0)]


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The best strategy of an instance of a task.

    Attributes:
        digest: the task's.
        instance: number of the instance, 0 is the nominal machine.
        draw: the draw of the instance that has a certified feasible strategy; those before have none.
        goodput_per_npu: tokens/s and NPU of the strategy.
        bound: tokens/s and NPU that no strategy exceeds.
        strategy: as JSON.
    """

    task: str
    digest: str
    cost_model: str
    instance: Number
    draw: Number
    goodput_per_npu: Positive
    bound: Positive
    strategy: dict[str, Any]

    @property
    def certified(self) -> bool:
        """Whether the bound is reached."""
        return self.bound <= self.goodput_per_npu * (1 + SAME)

    @property
    def optimum(self) -> float:
        """What scores are measured against: the best goodput, or the bound on it where it is not certified."""
        return self.goodput_per_npu if self.certified else self.bound


def certify(task: Task, number: int) -> Certificate:
    """Find the best strategy of an instance.

    Raises:
        InputError: no strategy is feasible on the nominal machine, or none is certified on any of the draws.
    """
    for draw in range(DRAWS if number else 1):
        found = optimum(task.instance(number, draw))
        if found.strategy is not None and (found.certified or not number):
            return Certificate(
                task=task.name,
                digest=task.digest,
                cost_model=COST_MODEL_VERSION,
                instance=number,
                draw=draw,
                goodput_per_npu=found.goodput_per_npu,
                bound=found.bound,
                strategy=found.strategy.to_json(),
            )
    where = f"in {DRAWS} draws of instance {number}" if number else "on the nominal machine"
    raise InputError(f"no strategy is certified to be feasible {where}", field="task", value=task.name)


_known: dict[tuple[str, str, int], Certificate] = {}


def certificate_of(task: Task, number: int) -> Certificate:
    """The stored certificate of an instance, else one that is found now, once a process."""
    key = (task.digest, COST_MODEL_VERSION, number)
    if key not in _known:
        _known[key] = stored_certificates().get(key) or certify(task, number)
    return _known[key]


def drawn_task(task: Task, number: int) -> Task:
    """The task on the machine that an instance's certificate is of."""
    return task.instance(number, certificate_of(task, number).draw) if number else task


def shelf() -> Traversable:
    """Where certificates of the built-in suites lie, a file a suite."""
    return resources.files("lts_bench.suites").joinpath("certificates")


@cache
def stored_certificates() -> dict[tuple[str, str, int], Certificate]:
    """Certificates of the built-in suites, by the task's digest, the cost model's version and the instance.

    Raises:
        InputError: a file is broken.
    """
    folder = shelf()
    files = [file for file in folder.iterdir() if file.name.endswith(ENDING)] if folder.is_dir() else []
    found = [each for file in files for each in decode_certificates(file.read_bytes(), str(file))]
    return {(each.digest, each.cost_model, each.instance): each for each in found}


def encode_certificates(certificates: Iterable[Certificate]) -> bytes:
    """A line of JSON with sorted keys for each certificate, by task and instance."""
    ordered = sorted(certificates, key=lambda each: (each.task, each.instance))
    return b"".join(msgspec.json.encode(each, order="sorted") + b"\n" for each in ordered)


def decode_certificates(data: bytes, source: str) -> list[Certificate]:
    """Read what ``encode_certificates`` wrote.

    Args:
        data: lines of JSON.
        source: the file, for messages.

    Raises:
        InputError: a line is no certificate.
    """
    found: list[Certificate] = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            found.append(msgspec.json.decode(line, type=Certificate))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"not a certificate: {error}", source=f"{source}:{number}") from None
    return found
