"""How an agent's process talks to the harness: frames of a kind, a length and bytes; JSON once, then raw arrays.

Nothing here can make the receiver execute code.
"""

from __future__ import annotations

import socket
import struct
import time

import numpy as np

from lts_bench.answer import ANSWER

SETUP, EVALUATE, ANSWERS, DONE = b"S", b"E", b"A", b"D"

_HEAD = struct.Struct("<cQ")
HEAD_BYTES = _HEAD.size
_ANSWERS_HEAD = struct.Struct("<q?")
_LARGEST_FRAME_BYTES = 1 << 30
_READ_BYTES = 1 << 18
VECTOR = np.dtype("<i8")
NO_CHOICE = -1
"""Stands for whatever is not a choice: the harness answers such a vector as illegal."""


class WireError(Exception):
    """The other side broke the protocol."""


def deadline_after(seconds: float) -> float:
    """Return the moment that many seconds from now."""
    return time.monotonic() + seconds


def frame(kind: bytes, payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    return _HEAD.pack(kind, len(payload)) + payload


def frame_bytes(begun: bytes | bytearray) -> int:
    """Return the length of a frame that begins so, its head included; that of the head where more is not known.

    Raises:
        WireError: a frame that is none.
    """
    if len(begun) < HEAD_BYTES:
        return HEAD_BYTES
    length: int = _HEAD.unpack_from(begun)[1]
    if length > _LARGEST_FRAME_BYTES:
        raise WireError(f"a frame of {length} bytes")
    return HEAD_BYTES + length


def send(wire: socket.socket, kind: bytes, payload: bytes) -> None:
    """Send one frame."""
    wire.sendall(frame(kind, payload))


def receive(wire: socket.socket, deadline_s: float | None = None) -> tuple[bytes, bytes]:
    """Receive one frame.

    Args:
        wire: the socket.
        deadline_s: a moment of ``time.monotonic``, None for as long as it takes.

    Raises:
        EOFError: the other side is gone.
        TimeoutError: the deadline has passed.
        WireError: a frame that is none.
    """
    head = _exactly(wire, HEAD_BYTES, deadline_s)
    return head[:1], _exactly(wire, frame_bytes(head) - HEAD_BYTES, deadline_s)


def _exactly(wire: socket.socket, count: int, deadline_s: float | None) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += _part(wire, min(count - len(data), _READ_BYTES), deadline_s)
    return bytes(data)


def _part(wire: socket.socket, most: int, deadline_s: float | None) -> bytes:
    if deadline_s is not None:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        wire.settimeout(left_s)
    part = wire.recv(most)
    if not part:
        raise EOFError
    return part


def pack_vectors(vectors: np.ndarray) -> bytes:
    """Return the bytes of vectors (n, d)."""
    return np.ascontiguousarray(vectors, dtype=VECTOR).tobytes()


def unpack_vectors(payload: bytes, decisions: int) -> np.ndarray:
    """Return vectors (n, d) from bytes."""
    if len(payload) % (decisions * VECTOR.itemsize):
        raise WireError(f"{len(payload)} bytes are no vectors of {decisions} decisions")
    return np.frombuffer(payload, dtype=VECTOR).reshape(-1, decisions)


def pack_answers(answers: np.ndarray, remaining: int, *, exhausted: bool) -> bytes:
    """Return the bytes of answers, of what is left of the budget and of whether more was asked for."""
    return _ANSWERS_HEAD.pack(remaining, exhausted) + answers.tobytes()


def unpack_answers(payload: bytes) -> tuple[np.ndarray, int, bool]:
    """Return answers, what is left, and whether the budget cut them short."""
    remaining, exhausted = _ANSWERS_HEAD.unpack_from(payload)
    return np.frombuffer(bytearray(payload), dtype=ANSWER, offset=_ANSWERS_HEAD.size), remaining, exhausted
