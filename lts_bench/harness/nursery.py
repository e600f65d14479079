"""The harness's side of `lts_bench.harness.forking`: agents imported once a worker, and processes forked of them."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import tempfile
from collections import OrderedDict

import msgspec

from lts_bench.harness import forking, wire
from lts_bench.harness.launch import start
from lts_bench.registry import AgentInfo

MOST = 8
"""Imported agents that a worker keeps."""
IMPORT_LIMIT_S = 120.0
LOST = forking.End(9, 0.0, 0)
"""The end of a process whose nursery was killed, and it along with it."""


class Nursery:
    """A process that has imported an agent."""

    def __init__(self, info: AgentInfo) -> None:
        """Start it, and wait until it has imported the agent.

        Raises:
            EOFError: it ended meanwhile.
            TimeoutError: it takes too long.
        """
        self._control, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the nursery)
        with theirs, tempfile.TemporaryDirectory(prefix="lts-bench-", ignore_cleanup_errors=True) as home:
            self._process = start(
                "lts_bench.harness.forking", theirs.fileno(), info, "child", home, info.origin, str(os.getpid()),
                stdout=self._output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            theirs.close()
            try:
                wire.receive(self._control, wire.deadline_after(IMPORT_LIMIT_S))
            except (EOFError, TimeoutError, ConnectionError):
                self.close()
                raise
        self._control.settimeout(None)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._process.poll() is None

    def printed(self) -> bytes:
        """Return what the agent printed when it was imported."""
        return os.pread(self._output.fileno(), os.fstat(self._output.fileno()).st_size, 0)

    def fork(self, connection: int, output: int, home: str) -> int:
        """Start a process of the agent and return its id, which is that of its group too."""
        socket.send_fds(self._control, [home.encode()], [connection, output])
        _, pid = wire.receive(self._control)
        return int(pid)

    def wait(self) -> forking.End:
        """Wait for the end of the forked process."""
        try:
            return msgspec.json.decode(wire.receive(self._control)[1], type=forking.End)
        except (EOFError, ConnectionError):
            return LOST

    def close(self) -> None:
        """End it."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._output.close()


_nurseries: OrderedDict[str, Nursery] = OrderedDict()


def nursery_of(info: AgentInfo) -> Nursery:
    """Return the nursery of an agent, started if need be; the one that was not used for longest may have to go."""
    nursery = _nurseries.pop(info.origin, None)
    if nursery is not None and not nursery.alive:
        nursery.close()
        nursery = None
    if nursery is None:
        while len(_nurseries) >= MOST:
            _nurseries.popitem(last=False)[1].close()
        nursery = Nursery(info)
    _nurseries[info.origin] = nursery
    return nursery


def nursery_pids() -> set[int]:
    """Return the processes of all nurseries of this process."""
    return {nursery.pid for nursery in _nurseries.values()}


@atexit.register
def close_nurseries() -> None:
    """End all nurseries."""
    while _nurseries:
        _nurseries.popitem()[1].close()
