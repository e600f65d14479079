"""The sizes that spaces are padded to, so that all tasks of a suite share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lts_bench.features import task_features
from lts_bench.problem import Problem
from lts_bench.space.degrees import valid_degrees
from lts_bench.space.operators import CORE, LOOKUP, MATMUL, operators
from lts_bench.space.pool_space import pool_pairs
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.model import Model
from lts_bench.specs.taskspec import Serving, TaskSpec

MOST_CHOICES = max(len(letters) for letters in (MATMUL, CORE, LOOKUP)) ** 2
"""Choices of an operator with a letter for each of two axes, at most."""


@dataclass(frozen=True)
class Frame:
    """What observations and actions have room for.

    Attributes:
        sizes: choices of every decision, the degrees first.
        features: features of a task.
    """

    sizes: tuple[int, ...]
    features: int

    @property
    def widest(self) -> int:
        """The size of the largest decision."""
        return max(self.sizes)

    @property
    def widest_operator(self) -> int:
        """The size of the largest decision but the degrees."""
        return max(self.sizes[1:], default=0)

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether decisions of the given sizes have room."""
        return len(sizes) <= len(self.sizes) and all(a <= b for a, b in zip(sizes, self.sizes, strict=False))


def problem_frame(problem: Problem) -> Frame:
    """Return the frame that a problem fills."""
    return Frame(tuple(problem.space.sizes.tolist()), len(problem.features))


def suite_frame(specs: Sequence[TaskSpec], largest: tuple[int, int] | None = None) -> Frame:
    """Return the frame that holds every task.

    Only degrees and operators are listed, once for each model and cluster; neither masks nor costs are built.

    Args:
        specs: the tasks.
        largest: a bound (degrees, operators) that is known already; nothing is listed then.
    """
    features = _count_features(specs[0])
    if largest is not None:
        return Frame((largest[0], *[MOST_CHOICES] * largest[1]), features)
    models = {name: load_model(name) for name in dict.fromkeys(spec.model for spec in specs)}
    clusters = {name: load_cluster(name) for name in dict.fromkeys(spec.cluster for spec in specs)}
    sizes = [
        _sizes(models[model], clusters[cluster], serving)
        for model, cluster, serving in dict.fromkeys((spec.model, spec.cluster, spec.serving) for spec in specs)
    ]
    return Frame(tuple(max(column) for column in zip_longest(*sizes, fillvalue=1)), features)


def _sizes(model: Model, cluster: Cluster, serving: Serving) -> tuple[int, ...]:
    choices = [len(each.choices) for each in operators(model)]
    if serving == "co-located":
        return len(valid_degrees(model, cluster)), *choices
    return len(pool_pairs(model, cluster)), *choices, *choices


def check_largest(largest: tuple[int, int]) -> None:
    """Refuse a bound that is none.

    Raises:
        InputError: it is not two positive integers.
    """
    if len(largest) != 2 or not all(isinstance(each, int) and each > 0 for each in largest):
        raise InputError("must be two positive integers: degrees, operators", field="largest", value=largest)


def _count_features(spec: TaskSpec) -> int:
    """Every task has the same features; beside what is known of it, the reference is one."""
    known = task_features(load_model(spec.model), load_cluster(spec.cluster), spec.workload, load_engine(spec.engine))
    return len(known) + 1
