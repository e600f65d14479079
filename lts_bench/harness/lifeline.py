"""No orphans: a process that ends when its parent does, and takes its agents' process groups with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Set
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.5

groups: set[int] = set()
"""Process groups of agents that this process has started and not yet cleared away."""


def kill_group(group: int, sign: signal.Signals) -> None:
    """Signal all processes of a group; none left is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sign)


def end_with_groups(sign: int, frame: FrameType | None) -> None:
    """End this process at once, its agents first (a signal handler)."""
    for group in tuple(groups):
        kill_group(group, signal.SIGKILL)
    os._exit(128 + sign)


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants; only itself where the kernel does not list children."""
    yield pid
    for child in children(pid):
        yield from family(child)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that `end_children` finds them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children(pid: int) -> list[int]:
    """Return the children of a process; none where the kernel does not list them."""
    found: list[int] = []
    # A process or a thread of it may end meanwhile.
    with contextlib.suppress(OSError):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, listed.read_text().split())
    return found


def end_children(kept: Set[int]) -> None:
    """Kill the children of this process but some, and wait for them."""
    while others := [pid for pid in children(os.getpid()) if pid not in kept]:
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def die_with_parent(sign: signal.Signals, parent: int) -> None:
    """Have this process signalled when its parent ends, however that ends.

    Args:
        sign: the signal to get.
        parent: the parent's process id, to notice that it is gone already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(sign))
    else:
        threading.Thread(target=_watch, args=(sign, parent), daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), sign)


def _watch(sign: signal.Signals, parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), sign)
