"""A task: a spec with its space and its cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lts_bench.cost.model import COST_MODEL_VERSION, CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.cost.pool_model import PoolModel, pool_settings
from lts_bench.features import task_features
from lts_bench.reference import Reference, find_reference
from lts_bench.space.decisions import Space
from lts_bench.space.degrees_table import DegreesTable
from lts_bench.space.pool_space import PoolSpace
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.generated import find_task
from lts_bench.specs.loading import convert
from lts_bench.specs.model import Model
from lts_bench.specs.perturbation import perturbed
from lts_bench.specs.quantization import apply_precision
from lts_bench.specs.suite import list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Workload, parse_workload


class Parts(NamedTuple):
    """What the names in a spec stand for; the model in its own precision."""

    model: Model
    cluster: Cluster
    engine: Engine

    @classmethod
    def of(cls, spec: TaskSpec) -> Parts:
        """Load them."""
        return cls(load_model(spec.model), load_cluster(spec.cluster), load_engine(spec.engine))


class Task:
    """A model on a cluster under a workload: which strategies there are and what each is worth.

    Attributes:
        spec: the names it is made of.
        parts: what they stand for.
        model: the model in the task's precision.
        space: the decisions.
    """

    def __init__(self, spec: TaskSpec, degrees: tuple[Degrees, ...] | None = None, parts: Parts | None = None) -> None:
        self.spec, self.parts = spec, parts or Parts.of(spec)
        self.model: Model = apply_precision(self.parts.model, spec.precision, spec.kv_precision)
        self.cluster: Cluster = self.parts.cluster
        self.engine: Engine = self.parts.engine
        self.workload: Workload = spec.workload
        self.space = self._space(degrees)

    def _space(self, degrees: tuple[Degrees, ...] | None) -> Space:
        if self.spec.serving == "co-located":
            return Space.build(self.model, self.cluster, degrees)
        pool_settings(self.model, self.cluster, self.engine, self.workload)  # refuses what cannot be priced
        return PoolSpace.of(self.model, self.cluster)

    @property
    def name(self) -> str:
        """The task's name."""
        return self.spec.name

    @property
    def feedback(self) -> str:
        """``graded``: all of an answer; ``flat``: goodput alone."""
        return self.spec.feedback

    @cached_property
    def cost(self) -> CostModel | PoolModel:
        """The cost model, tabulated on first use."""
        if isinstance(self.space, PoolSpace):
            return PoolModel(pool_settings(self.model, self.cluster, self.engine, self.workload), self.space)
        setting = Setting(self.model, self.cluster, self.engine, Phases.of(self.workload, self.engine))
        return CostModel(setting, DegreesTable(self.space.degrees))

    @cached_property
    def reference(self) -> Reference:
        """The published number that scores and rewards are measured against: Megatron's pattern at its best."""
        return find_reference(self)

    @cached_property
    def features(self) -> dict[str, float]:
        """What an engineer would know: named numbers about model, cluster, workload and SLOs, and the reference."""
        known = task_features(self.model, self.cluster, self.workload, self.engine)
        return known | {"reference_goodput_per_npu": self.reference.goodput_per_npu}

    @cached_property
    def digest(self) -> str:
        """Hash of all that decides a score: specs, space, feedback and the cost model's version."""
        content = {
            "model": _plain(self.model),
            "cluster": _plain(self.cluster),
            "workload": _plain(self.workload),
            "engine": _plain(self.engine),
            "feedback": self.feedback,
            "space": self.space.digest,
            "cost_model_version": COST_MODEL_VERSION,
        }
        if self.spec.serving != "co-located":
            content["serving"] = self.spec.serving
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def evaluate(self, vectors: ArrayLike) -> NDArray[np.void]:
        """(n,) answers, dtype ``lts_bench.answer.ANSWER``, of (n, decisions) integer vectors.

        Raises:
            InputError: if the array has another shape; entries out of range are illegal strategies.
        """
        given = np.asarray(vectors)
        if given.ndim != 2 or given.shape[1] != len(self.space.names) or given.dtype.kind not in "iu":
            shape = f"(n, {len(self.space.names)}) integers"
            raise InputError(
                "wrong array of vectors", field="vectors", value=(given.shape, str(given.dtype)), legal=[shape]
            )
        return self.cost.evaluate(given.astype(np.int64, copy=False))

    def instance(self, number: int, draw: int = 0) -> Task:
        """The task on a machine whose constants are drawn within their errors; instance 0 is the task itself.

        Args:
            number: of the instance.
            draw: which draw of it, for where earlier ones hold no feasible strategy.
        """
        if number == 0:
            return self
        rng = np.random.default_rng((int(self.digest, 16), number, draw))
        return self.on(*perturbed(self.cluster, self.engine, rng))

    def on(self, cluster: Cluster, engine: Engine) -> Task:
        """The task on a machine with other constants."""
        return Moved(self, cluster, engine)


class Moved(Task):
    """A task on a machine with other constants. Its space, features, reference and digest are the nominal ones."""

    def __init__(self, nominal: Task, cluster: Cluster, engine: Engine) -> None:
        self._nominal, self.spec, self.space = nominal, nominal.spec, nominal.space
        self.model, self.workload = nominal.model, nominal.workload
        self.cluster, self.engine = cluster, engine

    @cached_property
    def reference(self) -> Reference:
        """The nominal task's."""
        return self._nominal.reference

    @cached_property
    def features(self) -> dict[str, float]:
        """The nominal task's: what an engineer would know, not what this machine is like."""
        return self._nominal.features

    @cached_property
    def digest(self) -> str:
        """The nominal task's."""
        return self._nominal.digest


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def make_task(
    *,
    model: str,
    cluster: str,
    workload: str | Workload,
    name: str | None = None,
    engine: str = "generic",
    precision: str = "config",
    kv_precision: str = "config",
    feedback: str = "graded",
    serving: str = "co-located",
) -> Task:
    """A task from what the command line takes."""
    parsed = parse_workload(workload)
    spec = convert(
        {
            "name": name or f"{model}/{cluster}/custom",
            "model": model,
            "cluster": cluster,
            "workload": msgspec.to_builtins(parsed),
            "engine": engine,
            "precision": precision,
            "kv_precision": kv_precision,
            "feedback": feedback,
            "serving": serving,
        },
        TaskSpec,
        "task",
    )
    return Task(spec)


@cache
def task_specs() -> Mapping[str, TaskSpec]:
    """The specs of all tasks of the built-in suites but the generated ones, by name."""
    found = {spec.name: spec for suite in list_suites(generated=False) for spec in load_suite(suite).tasks}
    return MappingProxyType(found)


def load_task(name: str) -> Task:
    """A task of any built-in suite.

    Raises:
        InputError: if there is no such task.
    """
    if drawn := find_task(name):
        return Task(drawn)
    known = task_specs()
    if name not in known:
        raise InputError(f"unknown task{did_you_mean(name, known)}", field="task", value=name)
    return Task(known[name])
