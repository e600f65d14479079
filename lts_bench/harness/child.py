"""The agent's process: ``python -m lts_bench.harness.child FD``, or a fork of `lts_bench.harness.forking`.

It gets the space, the features and the budget over the wire, never a task, its name, its instance or a path to results.
"""

from __future__ import annotations

import math
import os
import random
import resource
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

import msgspec
import numpy as np

from lts_bench.budget import Budget, BudgetExhausted, readable_rows
from lts_bench.harness import wire
from lts_bench.harness.lifeline import die_with_parent
from lts_bench.harness.turns import Turns
from lts_bench.registry import load_origin
from lts_bench.space.pool_space import read_space

FILE_BYTES = 1 << 30
"""The largest file that an agent may write, its output included."""


class Setup(msgspec.Struct, frozen=True):
    """The first message: which agent, with what, and all it may know.

    Attributes:
        origin: of the agent's class, see `lts_bench.registry.load_origin`.
        memory_bytes: that the process may take.
        nominal: as `lts_bench.problem.Problem`'s.
    """

    origin: str
    seed: int
    memory_bytes: int
    budget: Budget
    space: dict[str, Any]
    feature_names: tuple[str, ...]
    features: tuple[float, ...]
    nominal: dict[str, Any] | None


class Done(msgspec.Struct, frozen=True):
    """The last message: how the agent ended, None for well."""

    error: str | None
    out_of_memory: bool


class RemoteProblem:
    """A problem whose meter lives in the harness."""

    def __init__(self, connection: socket.socket, setup: Setup) -> None:
        """Show what the harness has sent to the agent."""
        self._connection, self._turns = connection, Turns(connection)
        self.space = read_space(setup.space)
        self.budget, self.remaining = setup.budget, setup.budget.evaluations
        self.feature_names, self.features = setup.feature_names, np.array(setup.features, dtype=np.float64)
        self.nominal = setup.nominal

    def evaluate(self, vectors: Any) -> np.ndarray:
        """Score integer vectors (n, d), one evaluation each; see `lts_bench.problem.Problem.evaluate`."""
        rows, valid = readable_rows(vectors, self.space.sizes)
        if not valid.all():
            rows[~valid] = wire.NO_CHOICE
        # One row too many tells the harness all there is to tell about the rest.
        self._turns.send(wire.EVALUATE, wire.pack_vectors(rows[: self.remaining + 1]))
        _, payload = self._turns.receive()
        answers, self.remaining, exhausted = wire.unpack_answers(payload)
        if exhausted:
            raise BudgetExhausted(answers)
        return answers


def run_agent(origin: str, problem: Any, seed: int) -> Done:
    """Run an agent; whatever leaves it becomes a message, its traceback goes to stderr."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (for agents that use global state against the contract)
    try:
        load_origin(origin)().run(problem, np.random.default_rng(seed))
    except BudgetExhausted:
        pass
    except BaseException as error:
        traceback.print_exc()
        last = traceback.format_exception_only(error)[-1].strip()
        return Done(" ".join(last.split()), isinstance(error, MemoryError))
    return Done(None, False)


def _limit(setup: Setup) -> None:
    """Bound memory, processor seconds and the size of files; the budget's own seconds are the harness's business."""
    processor_s = math.ceil(setup.budget.seconds) + 1
    for kind, limit in (
        (resource.RLIMIT_DATA, setup.memory_bytes),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        # At the first limit of processor seconds comes a signal that tells of it, at the second SIGKILL.
        resource.setrlimit(kind, (limit, limit + 1))


def main() -> None:
    """Run one agent for the harness at the other end of the inherited socket, in a sandbox."""
    run(socket.socket(fileno=int(sys.argv[1])), None)


def run(connection: socket.socket, parent: int | None) -> NoReturn:
    """Run one agent and end this process.

    Args:
        connection: leads to the harness.
        parent: the process with which this one ends; None where a sandbox sees to that.
    """
    connection.set_inheritable(False)
    if parent is not None:
        die_with_parent(signal.SIGKILL, parent)
    _, payload = wire.receive(connection)
    setup = msgspec.json.decode(payload, type=Setup)
    _limit(setup)
    done = run_agent(setup.origin, RemoteProblem(connection, setup), setup.seed)
    wire.send(connection, wire.DONE, msgspec.json.encode(done))
    sys.stdout.flush()
    # The harness looks at this process before it hangs up.
    connection.recv(1)
    # Threads that an agent left running must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
