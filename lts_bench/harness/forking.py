"""A process that has imported an agent and forks one process a cell: importing a learning framework takes seconds.

``python -m lts_bench.harness.forking FD ORIGIN PARENT``. Over the inherited socket come, for each cell, its working
directory and two descriptors, the wire and the output; back go the new process's id and, after its end, what it took.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
from typing import NoReturn

import msgspec

from lts_bench.harness import wire
from lts_bench.harness.child import run
from lts_bench.harness.lifeline import die_with_parent
from lts_bench.registry import load_origin

READY, STARTED, ENDED = b"R", b"P", b"X"


class End(msgspec.Struct, frozen=True):
    """How a forked process ended, as ``os.wait4`` tells it."""

    status: int
    cpu_s: float
    peak_memory: int


def main() -> None:
    """Import an agent, then fork for each request until the harness hangs up."""
    descriptor, origin, parent = sys.argv[1:]
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    die_with_parent(signal.SIGKILL, int(parent))
    # What fails here fails again in the cell, where it is told.
    with contextlib.suppress(BaseException):
        load_origin(origin)
    sys.stdout.flush()
    wire.send(control, READY, b"")
    while True:
        home, descriptors, _, _ = socket.recv_fds(control, 1 << 12, 2)
        if not home:
            return
        _fork(control, home.decode(), *descriptors)


def _fork(control: socket.socket, home: str, connection: int, output: int) -> None:
    parent, (reader, writer) = os.getpid(), os.pipe()
    pid = os.fork()
    if not pid:
        control.close()
        _play(home, connection, output, writer, parent)
    for descriptor in (connection, output, writer):
        os.close(descriptor)
    # The process has a session of its own before anybody may signal its group.
    os.read(reader, 1)
    os.close(reader)
    wire.send(control, STARTED, str(pid).encode())
    _, status, usage = os.wait4(pid, 0)
    wire.send(control, ENDED, msgspec.json.encode(End(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)))


def _play(home: str, connection: int, output: int, ready: int, parent: int) -> NoReturn:
    try:
        os.setsid()
        os.write(ready, b"x")
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        os.chdir(home)
        os.environ.update(HOME=home, TMPDIR=home)
        tempfile.tempdir = None
        run(socket.socket(fileno=connection), parent)
    finally:
        # Whatever happens, never back into the loop of the parent.
        os._exit(1)


if __name__ == "__main__":
    main()
