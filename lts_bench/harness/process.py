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
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from lts_bench.harness import lifeline, wire
from lts_bench.harness.launch import start
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
        """Start ``lts_bench.harness.child``.

        Args:
            info: the agent.
            isolation: ``child`` or ``sealed``.
            log: gets what the agent printed, after the end.
        """
        self._home = tempfile.TemporaryDirectory(prefix="lts-bench-", ignore_cleanup_errors=True)
        self.connection, theirs = socket.socketpair()
        # Without a name: the log's own would tell the agent which cell it plays.
        self._output, self._log = tempfile.TemporaryFile(), log  # noqa: SIM115 (closed at the end)
        with theirs:
            self._process = start(
                "lts_bench.harness.child",
                theirs.fileno(),
                info,
                isolation,
                self._home.name,
                stdout=self._output,
                stderr=subprocess.STDOUT,
            )
        self.exit_code: int | None = None
        self.cpu_s, self.peak_memory_bytes = 0.0, 0
        lifeline.groups.add(self._process.pid)
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
            self._output.seek(0)
            shutil.copyfileobj(self._output, log)

    def send(self, kind: bytes, payload: bytes, deadline_s: float) -> None:
        """Send a frame, or raise TimeoutError: an agent that does not listen must not hold the harness."""
        self.connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        wire.send(self.connection, kind, payload)

    def receive(self, deadline_s: float) -> tuple[bytes, bytes]:
        """Receive a frame; see `wire.receive`."""
        return wire.receive(self.connection, deadline_s)

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
                lifeline.kill_group(self._process.pid, sign)
                self._reaper.join(GRACE_S if sign == signal.SIGTERM else None)

    def _note_living(self) -> None:
        # Linux counts what the parent had before exec into ru_maxrss, and a sandbox hides what is in it from wait4: so
        # ask the living processes.
        ticks = 0
        for pid in lifeline.family(self._process.pid):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
                self.peak_memory_bytes = max(self.peak_memory_bytes, int(peak[1]) * 1024 if peak else 0)
                times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]
                ticks += sum(map(int, times))
        self.cpu_s = max(self.cpu_s, ticks / os.sysconf("SC_CLK_TCK"))

    def _reap(self) -> None:
        pid = self._process.pid
        _, status, usage = os.wait4(pid, 0)
        # What the agent started must not outlive it, nor keep the wire open.
        lifeline.kill_group(pid, signal.SIGKILL)
        lifeline.groups.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        # A sandbox tells of a signal in the manner of a shell.
        self._process.returncode = self.exit_code = SHELL_SIGNAL - code if code > SHELL_SIGNAL else code
        self.cpu_s = max(self.cpu_s, usage.ru_utime + usage.ru_stime)
        self.peak_memory_bytes = self.peak_memory_bytes or usage.ru_maxrss * RUSAGE_BYTES


def deadline_after(seconds: float) -> float:
    """Return the moment that many seconds from now."""
    return time.monotonic() + seconds
