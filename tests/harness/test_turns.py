"""Sides that take turns: frames arrive whole whatever their size, waiting ends in time and costs little."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lts_bench.harness import turns, wire
from lts_bench.harness.turns import Turns

LARGE = bytes(range(256)) * 8192


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_frames_go_to_and_fro(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = map(Turns, pair)
    for payload in (b"", b"one", b"two"):
        left.send(wire.EVALUATE, payload)
        assert right.receive() == (wire.EVALUATE, payload)
        right.send(wire.ANSWERS, payload)
        assert left.receive(wire.deadline_after(60)) == (wire.ANSWERS, payload)


def test_whoever_does_not_wait_for_an_answer_breaks_the_protocol(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = map(Turns, pair)
    for payload in (b"one", b"two"):
        left.send(wire.EVALUATE, payload)
    with pytest.raises(wire.WireError, match="and 12 more"):
        right.receive()


@pytest.mark.parametrize("timed", [False, True])
def test_a_large_frame_goes_in_parts(pair: tuple[socket.socket, socket.socket], timed: bool) -> None:
    left, right = map(Turns, pair)
    deadline_s = wire.deadline_after(60) if timed else None
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(left.send, wire.EVALUATE, LARGE, deadline_s)
        assert right.receive(deadline_s) == (wire.EVALUATE, LARGE)
        sent.result()


def test_a_head_may_come_in_parts(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    frame = wire.frame(wire.EVALUATE, b"payload")
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(Turns(right).receive)
        for index in range(len(frame)):
            left.sendall(frame[index : index + 1])
            time.sleep(0.002)
        assert received.result() == (wire.EVALUATE, b"payload")


def test_a_giant_frame_is_refused_before_it_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    left.sendall(b"E" + b"\xff" * 8)
    with pytest.raises(wire.WireError, match="a frame of"):
        Turns(right).receive(wire.deadline_after(60))


def test_silence_times_out_and_a_hang_up_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    with pytest.raises(TimeoutError):
        Turns(right).receive(wire.deadline_after(0.02))
    left.close()
    with pytest.raises(EOFError):
        Turns(right).receive(wire.deadline_after(60))


def test_chatter_does_not_outlive_the_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = map(Turns, pair)
    left.send(wire.EVALUATE, b"late")
    with pytest.raises(TimeoutError):
        right.receive(wire.deadline_after(0.0))


def test_who_does_not_listen_does_not_hold_the_other(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        Turns(pair[0]).send(wire.ANSWERS, LARGE, wire.deadline_after(0.02))


def test_looks_in_vain_are_left_out_ever_more(pair: tuple[socket.socket, socket.socket]) -> None:
    """A side whose partner thinks long spends next to nothing on looking."""
    _, right = pair
    waiting, looked, read = Turns(right), [], Turns._read

    def looking() -> bytes | None:
        looked.append(True)
        return read(waiting)

    waiting._read = looking  # type: ignore[method-assign]
    waits_with_a_look = []
    for wait in range(600):
        looked.clear()
        assert waiting._look() is None
        if looked:
            waits_with_a_look.append(wait)
    assert waits_with_a_look == [0, 2, 6, 14, 30, 62, 126, 254, 510]


def test_a_look_that_finds_something_makes_up_for_those_in_vain(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = map(Turns, pair)
    for _ in range(1 + 1 + 1 + 3):
        assert right._look() is None
    left.send(wire.EVALUATE, b"")
    assert right.receive() == (wire.EVALUATE, b"")
    assert right._look() is None
    assert right._to_leave_out == 1


def test_looking_ends_soon(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(turns, "LOOK_S", 10.0)
    monkeypatch.setattr(turns.time, "monotonic", lambda: next(now))
    assert Turns(pair[0])._look() is None
    assert next(now) == 12
