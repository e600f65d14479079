"""The load that a strategy is offered: Poisson arrivals of requests with the lengths of its workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lts_bench.serving.generate import Gamma, generate
from lts_bench.serving.pool_replay import ServedPools
from lts_bench.serving.step_tables import Served
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_lengths import Fixed, Independent
from lts_bench.space.disaggregated import Disaggregated, legal_any
from lts_bench.specs.workload import Workload

if TYPE_CHECKING:
    from lts_bench.task import Task

SEED = 0


def served_in(task: Task, strategy: Mapping[str, Any]) -> Served | ServedPools:
    """A strategy, given as JSON, that serves a task's model on its machine.

    Raises:
        InputError: it is not legal.
    """
    checked = legal_any(strategy, task.model, task.cluster).strategy
    parts = task.model, task.cluster, task.engine, task.workload
    return ServedPools(*parts, checked) if isinstance(checked, Disaggregated) else Served(*parts, checked)


def predicted_rate(task: Task, goodput_per_npu: float) -> float:
    """Requests per second of a goodput in output tokens per second and NPU."""
    return goodput_per_npu * task.cluster.devices / task.workload.osl


def poisson_trace(workload: Workload, requests_per_s: float, count: int, turns: int = 1) -> Trace:
    """Requests of the workload's lengths that arrive in a Poisson process; same arguments, same bits.

    Args:
        workload: its mean lengths are those of every request.
        requests_per_s: rate of the process.
        count: requests of the trace.
        turns: of the process only every so manieth request is in the trace, as one of as many replicas sees it behind
            a router that serves them in turn: gaps are sums of ``turns`` exponential ones, Erlang distributed.
    """
    lengths = Independent(Fixed(workload.isl), Fixed(workload.osl))
    return generate(Gamma(requests_per_s / turns, cv=turns**-0.5), lengths, count, SEED)
