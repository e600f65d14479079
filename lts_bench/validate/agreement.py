"""The closed form against a replay of Poisson arrivals, mean with mean, at shares of the predicted rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from lts_bench.exact.certificates import certificate_of
from lts_bench.serving.expected import expected
from lts_bench.serving.metrics import attainment
from lts_bench.serving.offered import poisson_trace, predicted_rate, served_in
from lts_bench.serving.pool_replay import ServedPools
from lts_bench.serving.replay import Replayed, Replicas
from lts_bench.serving.replay_document import Options, replayed, replicas_of
from lts_bench.serving.step_tables import Served
from lts_bench.serving.trace import Trace
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task

LOADS = (0.5, 0.7, 0.9)
"""Offered ÷ predicted rate."""
FEWEST, MOST, TURNS = 4_000, 100_000, 12
"""Requests of a replay: so many times those that are served at once, within bounds."""


class Comparison(msgspec.Struct, frozen=True):
    """One task's optimum at one load.

    Attributes:
        degrees: of the strategy.
        load: offered ÷ predicted rate.
        throughput: requests that end ÷ requests that arrive, a second.
        ttft_ms, tpot_ms: means of the replay; ``expected_…`` of the closed form.
        lone_ttft_ms, lone_tpot_ms: means where one replica has Poisson arrivals of its own; of pools the same as those
            of both together.
        attainment: share of requests that meet the SLOs; ``wanted`` the percentile.
    """

    task: str
    degrees: str
    load: float
    throughput: float
    ttft_ms: float
    lone_ttft_ms: float
    expected_ttft_ms: float
    tpot_ms: float
    lone_tpot_ms: float
    expected_tpot_ms: float
    attainment: float
    wanted: float

    @property
    def ttft_error(self) -> float:
        """Closed form ÷ replay − 1."""
        return self.expected_ttft_ms / self.ttft_ms - 1

    @property
    def lone_ttft_error(self) -> float:
        """The same for one replica."""
        return self.expected_ttft_ms / self.lone_ttft_ms - 1

    @property
    def tpot_error(self) -> float:
        """Closed form ÷ replay − 1."""
        return self.expected_tpot_ms / self.tpot_ms - 1

    @property
    def lone_tpot_error(self) -> float:
        """The same for one replica."""
        return self.expected_tpot_ms / self.lone_tpot_ms - 1


def compare(spec: TaskSpec) -> list[Comparison]:
    """A task's certified optimum at all loads."""
    task = Task(spec)
    certificate = certificate_of(task, 0)
    highest = predicted_rate(task, certificate.goodput_per_npu)
    return list(_at_loads(task, served_in(task, certificate.strategy), highest))


def _at_loads(task: Task, served: Served | ServedPools, highest: float) -> Iterator[Comparison]:
    workload = task.workload
    for load in LOADS:
        rate = load * highest
        told = expected(served, rate)
        at_once = rate * (told.ttft_s + workload.osl * told.tpot_s)
        count = int(np.clip(TURNS * at_once, FEWEST, MOST))
        trace = poisson_trace(workload, rate, count)
        replicas = replicas_of(served, trace, Options())
        found = replayed(trace, replicas)
        middle = slice(count // 3, count - count // 3)
        lone = found
        if isinstance(replicas, Replicas) and replicas.count > 1:
            own = poisson_trace(workload, rate / replicas.count, max(count // replicas.count, FEWEST))
            lone = replayed(own, replace(replicas, count=1))
        yield Comparison(
            task=task.name,
            degrees=served.strategy.degrees.label(),
            load=load,
            throughput=_throughput(found, trace, middle),
            ttft_ms=_mean_ms(found.ttft_s),
            lone_ttft_ms=_mean_ms(lone.ttft_s),
            expected_ttft_ms=1e3 * told.ttft_s,
            tpot_ms=_mean_ms(found.tpot_s),
            lone_tpot_ms=_mean_ms(lone.tpot_s),
            expected_tpot_ms=1e3 * told.tpot_s,
            attainment=attainment(found, workload.slo),
            wanted=workload.slo.percentile / 100,
        )


def _mean_ms(seconds: NDArray[np.float64]) -> float:
    """Mean of the requests in the middle third."""
    third = len(seconds) // 3
    return 1e3 * float(seconds[third : len(seconds) - third].mean())


def _throughput(found: Replayed, trace: Trace, middle: slice) -> float:
    """Rate at which requests end ÷ rate at which they arrive, of those in the middle."""
    arrived, ended = trace.arrival_s[middle], np.sort(found.finish_s[middle])
    rates = [(len(times) - 1) / (times[-1] - times[0]) for times in (arrived, ended)]
    return float(rates[1] / rates[0])
