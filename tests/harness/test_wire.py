from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.answer import ANSWER
from lts_bench.harness import wire


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3)))
def test_vectors_survive_the_wire(vectors: list[tuple[int, int, int]]) -> None:
    given_ = np.array(vectors, dtype=np.int64).reshape(-1, 3)
    assert np.array_equal(wire.unpack_vectors(wire.pack_vectors(given_), 3), given_)


@given(st.binary(min_size=ANSWER.itemsize * 2, max_size=ANSWER.itemsize * 2), st.integers(0, 2**62), st.booleans())
def test_answers_survive_bit_by_bit(data: bytes, remaining: int, exhausted: bool) -> None:
    payload = wire.pack_answers(np.frombuffer(data, ANSWER), remaining, exhausted=exhausted)
    answers, left, cut = wire.unpack_answers(payload)
    assert (answers.tobytes(), left, cut) == (data, remaining, exhausted)


def test_bytes_that_are_no_vectors_are_refused() -> None:
    with pytest.raises(wire.WireError, match="no vectors"):
        wire.unpack_vectors(b"123456789", 1)


def test_a_frame_arrives_in_pieces() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        payload = bytes(range(256)) * 5000
        sender = threading.Thread(target=wire.send, args=(theirs, wire.EVALUATE, payload))
        sender.start()
        assert wire.receive(ours, time.monotonic() + 60) == (wire.EVALUATE, payload)
        sender.join()


def test_silence_times_out_and_a_hang_up_is_told() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, pytest.raises(TimeoutError):
            wire.receive(ours, time.monotonic() + 0.05)
        with pytest.raises(EOFError):
            wire.receive(ours, time.monotonic() + 60)


def test_a_giant_frame_is_refused_before_it_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"E" + b"\xff" * 8)
        with pytest.raises(wire.WireError, match="a frame of"):
            wire.receive(ours, time.monotonic() + 60)
