"""The published number of a task: the best strategy of Megatron's pattern on its nominal instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.strategy import Strategy
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import Slo

if TYPE_CHECKING:
    from lts_bench.task import Task


@dataclass(frozen=True)
class Reference:
    """What scores and rewards are measured against.

    Attributes:
        goodput_per_npu: tokens/s and NPU, above 0.
        meets_slo: False where no strategy of the pattern is feasible and the SLO was ignored.
    """

    goodput_per_npu: float
    strategy: Strategy
    meets_slo: bool


def find_reference(task: Task) -> Reference:
    """The best strategy of ``megatron_search``; where none is feasible, the least violating one that fits the memory.

    The latter's goodput is the one without the SLO.

    Disaggregated serving is measured against that of co-located serving on the same devices.

    Raises:
        InputError: if none fits the memory.
    """
    if task.spec.serving != "co-located":
        return type(task)(msgspec.structs.replace(task.spec, serving="co-located")).reference
    vectors = megatron_vectors(task.space)
    answers = task.evaluate(vectors)
    if answers["feasible"].any():
        return _reference(task, vectors, answers["goodput_per_npu"], meets_slo=True)
    violation = answers["violation"].sum(axis=1)
    violation[answers["violation"][:, 0] > 0] = np.inf
    least = vectors[violation.argmin()][None]
    workload = msgspec.structs.replace(task.workload, slo=Slo())
    relaxed = type(task)(msgspec.structs.replace(task.spec, workload=workload), parts=task.parts)
    goodput = relaxed.evaluate(least)["goodput_per_npu"]
    if goodput[0] <= 0:
        raise InputError("no strategy of Megatron's pattern fits the memory", field="task", value=task.name)
    return _reference(task, least, goodput, meets_slo=False)


def _reference(task: Task, vectors: NDArray[np.int64], goodput: NDArray[np.float64], *, meets_slo: bool) -> Reference:
    best = int(goodput.argmax())
    return Reference(float(goodput[best]), task.space.decode(vectors[best]), meets_slo)
