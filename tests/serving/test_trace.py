from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.serving.trace import OVER_LONG, PrefixBlocks, Trace, parse_window
from lts_bench.specs.failure import InputError


def made(arrival_s: list[float], prompt: list[int] | None = None, **more: Any) -> Trace:
    return Trace(
        np.array(arrival_s), np.array(prompt or [1] * len(arrival_s)), np.ones(len(arrival_s), np.int64), **more
    )


BLOCKS = PrefixBlocks(np.array([0, 2, 2, 3]), np.array([7, 8, 7]), block_tokens=4)
THREE = made([0, 1, 4], [8, 3, 4], blocks=BLOCKS, sessions=np.array([0, -1, 0]), skipped={"bad_row": 1})


def test_a_window_begins_anew_and_keeps_what_belongs_to_its_requests() -> None:
    window = THREE.window(1, 5)
    assert window.arrival_s.tolist() == [0, 3]
    assert window.prompt_tokens.tolist() == [3, 4]
    assert window.blocks is not None
    assert (window.blocks.offsets.tolist(), window.blocks.ids.tolist()) == ([0, 0, 1], [7])
    assert window.sessions is not None
    assert window.sessions.tolist() == [-1, 0]
    assert window.skipped == {"bad_row": 1}
    assert len(THREE.window(0, 4)) == 2


@given(gaps=st.lists(st.floats(0, 100), min_size=1, max_size=30), cut=st.floats(0.001, 3000))
def test_windows_side_by_side_hold_every_request_once(gaps: list[float], cut: float) -> None:
    trace = made(np.concatenate([[0.0], np.cumsum(gaps)]).tolist(), list(range(1, len(gaps) + 2)))
    parts = [trace.window(0, cut)]
    if trace.duration_s >= cut:
        parts.append(trace.window(cut, math.inf))
    assert np.concatenate([part.prompt_tokens for part in parts]).tolist() == trace.prompt_tokens.tolist()


@pytest.mark.parametrize("window", [(2, 2), (3, 1), (-1, 5), (math.nan, 5), (0, math.nan), (5, 9), (1.5, 2)])
def test_windows_without_requests_are_refused(window: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="window"):
        THREE.window(*window)


def test_windows_as_text() -> None:
    assert parse_window("10:20.5") == (10, 20.5)
    assert parse_window(":") == (0, math.inf)
    for text in ("", "5", "a:b", "1:2:3"):
        with pytest.raises(InputError, match="START:END"):
            parse_window(text)


def test_requests_beyond_the_context_are_left_out_and_counted() -> None:
    assert THREE.within_context(9) is THREE
    short = THREE.within_context(5)
    assert short.prompt_tokens.tolist() == [3, 4]
    assert short.arrival_s.tolist() == [0, 3]
    assert short.skipped == {"bad_row": 1, OVER_LONG: 1}
    assert short.within_context(4).skipped == {"bad_row": 1, OVER_LONG: 2}
    with pytest.raises(InputError, match=r"at most 2 tokens.*over_long 3"):
        THREE.within_context(2)


def test_rates() -> None:
    assert THREE.requests_per_s == 3 / 4
    assert THREE.scaled(4).requests_per_s == 3
    assert made([0, 0]).requests_per_s is None


def test_what_a_trace_must_be() -> None:
    with pytest.raises(InputError, match="at least one request"):
        made([])
    for broken in ([1.0], [0, 2, 1], [0, math.nan]):
        with pytest.raises(ValueError, match="arrival times"):
            made(broken)
    with pytest.raises(ValueError, match="at least one token"):
        made([0], [-1])
    with pytest.raises(ValueError, match="same length"):
        made([0, 1], [1])
    with pytest.raises(ValueError, match="same length"):
        made([0, 1], blocks=BLOCKS)
    with pytest.raises(InputError, match="block_tokens"):
        PrefixBlocks(np.array([0]), np.array([]), block_tokens=0)
