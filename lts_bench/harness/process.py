"""An agent's process as the harness sees it: started bare, ended with its children."""

from __future__ import annotations

import contextlib
import os
import re
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

GRACE_S = 2.0
RUSAGE_BYTES = 1 if sys.platform == "darwin" else 1024
"""The unit of ``ru_maxrss``."""
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def bare_environment(home: str) -> dict[str, str]:
    """Return the environment of an agent: enough to import, one thread, nothing about who runs it."""
    kept = {name: _absolute(os.environ[name]) for name in KEPT_VARIABLES if os.environ.get(name)}
    fixed = {"HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    return kept | fixed | dict.fromkeys(ONE_THREAD, "1")


def _absolute(paths: str) -> str:
    return os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep))


class AgentProcess:
    """A child process in a session and a working directory of its own.

    Attributes:
        connection: the harness's end of the wire.
        exit_code: None before the end; negative for a signal.
        cpu_s: CPU seconds of the child and of the children it waited for, after the end.
        peak_memory_bytes: after the end.
    """

    def __init__(self, log: Path) -> None:
        """Start ``lts_bench.harness.child``, its output going to a log."""
        self._home = tempfile.TemporaryDirectory(prefix="lts-bench-", ignore_cleanup_errors=True)
        self.connection, theirs = socket.socketpair()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lts_bench.harness.child", str(theirs.fileno())],
                cwd=self._home.name,
                env=bare_environment(self._home.name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
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

    def send(self, kind: bytes, payload: bytes, deadline_s: float) -> None:
        """Send a frame, or raise TimeoutError: an agent that does not listen must not hold the harness."""
        self.connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        wire.send(self.connection, kind, payload)

    def receive(self, deadline_s: float) -> tuple[bytes, bytes]:
        """Receive a frame; see `wire.receive`."""
        return wire.receive(self.connection, deadline_s)

    def dismiss(self) -> None:
        """Hang up and give the process time to end by itself."""
        self._note_memory()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self._reaper.join(GRACE_S)

    def stop(self) -> None:
        """End the whole group: a request first, then force."""
        self._note_memory()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self._reaper.is_alive():
                lifeline.kill_group(self._process.pid, sign)
                self._reaper.join(GRACE_S if sign == signal.SIGTERM else None)

    def _note_memory(self) -> None:
        # Linux counts what the parent had before exec into ru_maxrss, so ask the living process.
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
            peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
            self.peak_memory_bytes = int(peak[1]) * 1024 if peak else self.peak_memory_bytes

    def _reap(self) -> None:
        pid = self._process.pid
        _, status, usage = os.wait4(pid, 0)
        # What the agent started must not outlive it, nor keep the wire open.
        lifeline.kill_group(pid, signal.SIGKILL)
        lifeline.groups.discard(pid)
        self._process.returncode = self.exit_code = os.waitstatus_to_exitcode(status)
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.peak_memory_bytes = self.peak_memory_bytes or usage.ru_maxrss * RUSAGE_BYTES


def deadline_after(seconds: float) -> float:
    """Return the moment that many seconds from now."""
    return time.monotonic() + seconds
