"""Runs one cell: the meter in this process, the agent in a child (or here, for development), the outcome a row."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from lts_bench.budget import BudgetExhausted, Meter
from lts_bench.harness import wire
from lts_bench.harness.cells import Cell
from lts_bench.harness.child import Done, Setup, run_agent
from lts_bench.harness.launch import origin_in
from lts_bench.harness.nursery import nursery_of
from lts_bench.harness.process import RUSAGE_BYTES, AgentProcess
from lts_bench.nominal import nominal_for
from lts_bench.problem import REFERENCE, LocalProblem
from lts_bench.registry import describe_agent
from lts_bench.results.final_replay import final_replay
from lts_bench.results.provenance import provenance
from lts_bench.results.rescoring import best_of
from lts_bench.results.schema import Best, Cost, Optimum, Point, Replay, Row, Status, score_of, trace_digest
from lts_bench.task import Task

MEMORY_BYTES = 8 << 30
"""That an agent's process may take, as private memory."""
SECONDS_DIGITS = 6
"""Of the moments of a trace."""


class Ending(NamedTuple):
    """How an agent ended and what it took, its own process only."""

    status: Status
    error: str | None
    cpu_s: float
    peak_memory_bytes: int


class Stopwatch:
    """A task's evaluation that adds up its seconds."""

    def __init__(self, task: Task) -> None:
        """Wrap a task."""
        self._task, self.seconds = task, 0.0

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Score vectors."""
        started = time.perf_counter()
        try:
            return self._task.evaluate(vectors)
        finally:
            self.seconds += time.perf_counter() - started


def run_cell(cell: Cell, task: Task, optimum: Optimum, log: Path) -> Row:
    """Run a cell to its end.

    Args:
        cell: what to run.
        task: the cell's task on the machine of the cell's instance.
        optimum: the best goodput there.
        log: takes what the agent prints.
    """
    # Features tabulate the task on first use, which is not this cell's time.
    features = task.features
    # Nor is the import of the agent, once a worker; where it fails, starting the agent fails too.
    if cell.isolation == "child":
        with contextlib.suppress(EOFError, TimeoutError, ConnectionError):
            nursery_of(_described(cell.agent.ref))
    stopwatch = Stopwatch(task)
    meter = Meter(stopwatch, cell.budget, task.space, feedback=task.feedback)
    problem = LocalProblem(meter, features, nominal_for(cell.agent.track, cell.task.spec))
    started = time.perf_counter()
    run = _run_here if cell.isolation == "in_process" else _run_in_child
    ending = run(cell, problem, log)
    wall_s = time.perf_counter() - started
    cost = Cost(
        evaluations=meter.used,
        unique=meter.unique,
        infeasible=meter.infeasible,
        illegal=meter.illegal,
        wall_s=wall_s,
        agent_cpu_s=max(0.0, ending.cpu_s),
        cost_model_s=stopwatch.seconds,
        peak_memory_bytes=ending.peak_memory_bytes,
    )
    return _row(cell, task, optimum, meter, ending, cost)


def _run_in_child(cell: Cell, problem: LocalProblem, log: Path) -> Ending:
    info = _described(cell.agent.ref)
    try:
        process = AgentProcess(info, cell.isolation, log)
    except (EOFError, TimeoutError, ConnectionError):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        return Ending(Status.CRASH, "the agent's process ended while it was imported", 0.0, 0)
    deadline_s = wire.deadline_after(cell.budget.seconds)
    with process:
        try:
            process.send(wire.SETUP, _setup(cell, origin_in(info, cell.isolation), problem), deadline_s)
            done = _serve(process, problem, deadline_s)
            process.dismiss()
            status, error = _verdict(done)
        except TimeoutError:
            status, error = Status.TIMEOUT, f"stopped after {cell.budget.seconds:g} s"
        except wire.WireError as broken:
            status, error = Status.CRASH, f"the agent's process broke the protocol: {broken}"
        except (EOFError, ConnectionError):
            process.dismiss()
            status, error = _sudden_end(process.exit_code)
        process.stop()
        return Ending(status, error, process.cpu_s, process.peak_memory_bytes)


_described = lru_cache(maxsize=64)(describe_agent)


def _setup(cell: Cell, origin: str, problem: LocalProblem) -> bytes:
    setup = Setup(
        origin=origin,
        seed=cell.agent_seed,
        memory_bytes=MEMORY_BYTES,
        budget=cell.budget,
        space=problem.space.to_dict(),
        feature_names=problem.feature_names,
        features=tuple(problem.features.tolist()),
        nominal=problem.nominal,
    )
    return msgspec.json.encode(setup)


def _serve(process: AgentProcess, problem: LocalProblem, deadline_s: float) -> Done:
    """Answer the agent until it is done."""
    while True:
        kind, payload = process.receive(deadline_s)
        if kind == wire.DONE:
            return _done(payload)
        if kind != wire.EVALUATE:
            raise wire.WireError(f"a frame of kind {kind!r}")
        vectors = wire.unpack_vectors(payload, len(problem.space.names))
        try:
            answers, exhausted = problem.evaluate(vectors), False
        except BudgetExhausted as spent:
            answers, exhausted = spent.answers, True
        payload = wire.pack_answers(answers, problem.remaining, exhausted=exhausted)
        process.send(wire.ANSWERS, payload, deadline_s)


def _done(payload: bytes) -> Done:
    try:
        return msgspec.json.decode(payload, type=Done)
    except msgspec.DecodeError as error:
        raise wire.WireError(str(error)) from None


def _verdict(done: Done) -> tuple[Status, str | None]:
    if done.error is None:
        return Status.OK, None
    return (Status.OOM if done.out_of_memory else Status.CRASH), done.error


def _sudden_end(exit_code: int | None) -> tuple[Status, str]:
    if exit_code is None:
        return Status.CRASH, "the agent's process hung up"
    if exit_code == -signal.SIGXCPU:
        return Status.TIMEOUT, "took more processor seconds than the budget has"
    if exit_code == -signal.SIGKILL:
        return Status.OOM, "killed from outside, most likely for lack of memory"
    how = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
    return Status.CRASH, f"the agent's process ended without a word ({how})"


def _run_here(cell: Cell, problem: LocalProblem, log: Path) -> Ending:
    started = time.process_time()
    with _printing_to(log):
        done = run_agent(_described(cell.agent.ref).origin, problem, cell.agent_seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_BYTES
    return Ending(*_verdict(done), time.process_time() - started, peak)


@contextlib.contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w", encoding="utf-8", errors="backslashreplace") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        yield


def _row(cell: Cell, task: Task, optimum: Optimum, meter: Meter, ending: Ending, cost: Cost) -> Row:
    (status, error), best = _outcome(ending, meter), _best(task, meter)
    trace = tuple(
        Point(point.evaluation, round(point.seconds, SECONDS_DIGITS), point.goodput_per_npu, point.vector)
        for point in meter.trace
    )
    return Row(
        run_id=cell.run_id,
        task=cell.task.name,
        task_digest=cell.task.digest,
        space_digest=cell.task.space_digest,
        track=cell.agent.track,
        agent=cell.agent.name,
        version=cell.agent.version,
        parameters=cell.agent.parameters,
        seed=cell.seed,
        instance=cell.instance,
        budget=cell.budget.name,
        isolation=cell.isolation,
        status=status,
        error=error,
        best=best,
        replay=_replay(task, best),
        first_feasible=meter.first_feasible,
        reference=task.features[REFERENCE],
        optimum=optimum,
        regret=1 - score_of(status, best, optimum),
        trace=trace,
        trace_digest=trace_digest(trace),
        cost=cost,
        provenance=provenance(cell.task.cost_model, cell.agent.digest),
    )


def _outcome(ending: Ending, meter: Meter) -> tuple[Status, str | None]:
    if ending.status is not Status.OK or meter.best is not None:
        return ending.status, ending.error
    if meter.used and meter.illegal == meter.used:
        return Status.INVALID, f"none of {meter.used} vectors was legal"
    return Status.NO_SOLUTION, f"none of {meter.used} strategies was feasible"


def _best(task: Task, meter: Meter) -> Best | None:
    if meter.best is None:
        return None
    best = best_of(task, np.array(meter.best.vector))
    return msgspec.structs.replace(best, goodput_per_npu=meter.best.goodput_per_npu)


def _replay(task: Task, best: Best | None) -> Replay | None:
    """Replay the best strategy, after the agent has ended; what merely answers like a task, as in audits, has none."""
    return final_replay(task, best) if best is not None and isinstance(task, Task) else None
