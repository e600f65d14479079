"""An agent's process as the harness sees it: started bare, ended with its children."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from lts_bench.harness import lifeline
from lts_bench.harness.forking import End
from lts_bench.harness.launch import start
from lts_bench.harness.nursery import nursery_of
from lts_bench.harness.turns import Turns
from lts_bench.registry import AgentInfo

GRACE_S = 2.0
RUSAGE_BYTES = 1 if sys.platform == "darwin" else 1024
"""The unit of ``ru_maxrss``."""
SHELL_SIGNAL = 128
"""The exit code of a shell, or a sandbox, whose process was ended by signal s is so much more than s."""


class AgentProcess:
    """A child process in a session and a working directory of its own.

    Attributes:
        connection: the harness's end of the wire.
        exit_code: None before the end; negative for a signal.
        cpu_s: CPU seconds of the child and of the children it waited for, after the end.
        peak_memory_bytes: after the end.
    """

    def __init__(self, info: AgentInfo, isolation: str, log: Path) -> None:
        """Start the process.

        Args:
            info: the agent.
            isolation: ``child``, forked of one that has imported the agent, or ``sealed``, started afresh.
            log: gets what the agent printed, after the end.

        Raises:
            EOFError: the process ended while the agent was imported.
            TimeoutError: importing takes too long.
        """
        source = nursery_of(info) if isolation == "child" else None
        self._home = tempfile.TemporaryDirectory(prefix="lts-bench-", ignore_cleanup_errors=True)
        self.connection, theirs = socket.socketpair()
        self._turns = Turns(self.connection)
        # Without a name: the log's own would tell the agent which cell it plays.
        self._output, self._log = tempfile.TemporaryFile(), log  # noqa: SIM115 (closed at the end)
        with theirs:
            if source is not None:
                self._pid = source.fork(theirs.fileno(), self._output.fileno(), self._home.name)
                self._wait, self._preface = source.wait, source.printed()
            else:
                self._pid = self._start_afresh(info, isolation, theirs.fileno())
                self._wait, self._preface = self._wait_here, b""
        self.exit_code: int | None = None
        self.cpu_s, self.peak_memory_bytes = 0.0, 0
        lifeline.groups.add(self._pid)
        self._reaper = threading.Thread(target=self._reap, daemon=True)
        self._reaper.start()

    def __enter__(self) -> Self:
        """Return the process."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, its children and its directory."""
        self.stop()
        self.connection.close()
        self._home.cleanup()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._output, self._log.open("wb") as log:
            log.write(self._preface)
            self._output.seek(0)
            shutil.copyfileobj(self._output, log)

    def _start_afresh(self, info: AgentInfo, isolation: str, connection: int) -> int:
        self._process = start(
            "lts_bench.harness.child",
            connection,
            info,
            isolation,
            self._home.name,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        return self._process.pid

    def _wait_here(self) -> End:
        _, status, usage = os.wait4(self._pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return End(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)

    def send(self, kind: bytes, payload: bytes, deadline_s: float) -> None:
        """Send a frame, or raise TimeoutError: an agent that does not listen must not hold the harness."""
        self._turns.send(kind, payload, deadline_s)

    def receive(self, deadline_s: float) -> tuple[bytes, bytes]:
        """Receive a frame; see `turns.Turns.receive`."""
        return self._turns.receive(deadline_s)

    def dismiss(self) -> None:
        """Hang up and give the process time to end by itself."""
        self._note_living()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self._reaper.join(GRACE_S)

    def stop(self) -> None:
        """End the whole group: a request first, then force."""
        self._note_living()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self._reaper.is_alive():
                lifeline.kill_group(self._pid, sign)
                self._reaper.join(GRACE_S if sign == signal.SIGTERM else None)

    def _note_living(self) -> None:
        # Linux counts what the parent had before exec into ru_maxrss, and a sandbox hides what is in it from wait4: so
        # ask the living processes.
        ticks = 0
        for pid in lifeline.family(self._pid):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
                self.peak_memory_bytes = max(self.peak_memory_bytes, int(peak[1]) * 1024 if peak else 0)
                times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]
                ticks += sum(map(int, times))
        self.cpu_s = max(self.cpu_s, ticks / os.sysconf("SC_CLK_TCK"))

    def _reap(self) -> None:
        end = self._wait()
        # What the agent started must not outlive it, nor keep the wire open.
        lifeline.kill_group(self._pid, signal.SIGKILL)
        lifeline.groups.discard(self._pid)
        code = os.waitstatus_to_exitcode(end.status)
        # A sandbox tells of a signal in the manner of a shell.
        self.exit_code = SHELL_SIGNAL - code if code > SHELL_SIGNAL else code
        self.cpu_s = max(self.cpu_s, end.cpu_s)
        self.peak_memory_bytes = self.peak_memory_bytes or end.peak_memory * RUSAGE_BYTES
