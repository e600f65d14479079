"""An agent and the harness take turns over their wire: one frame goes out, then one comes in.

To wake a process that sleeps takes longer than to answer about one strategy. So whoever waits first looks for the frame
again and again, for a moment, and sleeps only then. Looking is in vain where the other side takes its time, or needs
the very processor; each time it was, the next looks are left out, ever more of them.
"""

from __future__ import annotations

import math
import select
import socket
import time

from lts_bench.harness import wire

LOOK_S = 2.5e-4
"""How long to look before sleeping."""
MOST_LEFT_OUT = 255
"""How many looks at most are left out after one in vain."""
_READ_BYTES = 1 << 18
_LONGEST_SLEEP_S = 3600.0


class Turns:
    """One side of the wire: of a socket in blocking mode."""

    def __init__(self, connection: socket.socket) -> None:
        """Take turns over a socket."""
        self._connection = connection
        self._poll = select.poll()
        self._left_out = self._to_leave_out = 0

    def send(self, kind: bytes, payload: bytes, deadline_s: float | None = None) -> None:
        """Send a frame.

        Args:
            kind: of the frame.
            payload: what is in it.
            deadline_s: a moment of ``time.monotonic``, None for as long as it takes.

        Raises:
            TimeoutError: the deadline has passed: the other side does not listen.
        """
        left = memoryview(wire.frame(kind, payload))
        while left:
            try:
                left = left[self._connection.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._sleep(select.POLLOUT, deadline_s)

    def receive(self, deadline_s: float | None = None) -> tuple[bytes, bytes]:
        """Receive the only frame that is under way, in one read if it is short.

        Raises:
            EOFError: the other side is gone.
            TimeoutError: the deadline has passed.
            WireError: a frame that is none, or more than one.
        """
        data = self._part(deadline_s)
        length = wire.frame_bytes(data)
        if len(data) < length:
            data, length = self._continued(data, deadline_s)
        if len(data) > length:
            raise wire.WireError(f"a frame of {length} bytes, and {len(data) - length} more")
        return data[:1], data[wire.HEAD_BYTES :]

    def _continued(self, begun: bytes, deadline_s: float | None) -> tuple[bytes, int]:
        data = bytearray(begun)
        while len(data) < (length := wire.frame_bytes(data)):
            data += self._part(deadline_s)
        return bytes(data), length

    def _part(self, deadline_s: float | None) -> bytes:
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise TimeoutError
        part = self._look()
        while part is None:
            self._sleep(select.POLLIN, deadline_s)
            part = self._read()
        if not part:
            raise EOFError
        return part

    def _look(self) -> bytes | None:
        """Return what comes within a moment."""
        if self._left_out < self._to_leave_out:
            self._left_out += 1
            return None
        until_s = time.monotonic() + LOOK_S
        while (part := self._read()) is None:
            if time.monotonic() > until_s:
                self._left_out, self._to_leave_out = 0, min(2 * self._to_leave_out + 1, MOST_LEFT_OUT)
                return None
        self._to_leave_out = 0
        return part

    def _read(self) -> bytes | None:
        try:
            return self._connection.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None

    def _sleep(self, event: int, deadline_s: float | None) -> None:
        """Sleep until something can be read or written."""
        left_s = _LONGEST_SLEEP_S
        if deadline_s is not None:
            left_s = min(left_s, deadline_s - time.monotonic())
        if left_s <= 0:
            raise TimeoutError
        self._poll.register(self._connection, event)
        self._poll.poll(math.ceil(1e3 * left_s))
