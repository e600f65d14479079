from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.cost.steady import Round, prompt_seconds
from lts_bench.specs.engine import load_engine
from lts_bench.specs.workload import Workload
from lts_bench.validate.closed_loop import ClosedLoop

ENGINE = msgspec.structs.replace(load_engine("generic"), request_overhead_ms=20, prompt_token_overhead_us=8, burst=0.1)
# 10 ms a token, 0.02 prompts a round of 100 ms each, 200 ms for one prompt through all stages.
LOOP = ClosedLoop(ENGINE, Workload(1000, 100), 5, 5, Round(0.01, 0.02, 0.1, 0.2), 0.2)


def test_a_token_waits_for_the_prompts_of_the_others() -> None:
    assert LOOP.tpot_seconds == pytest.approx(0.01 + 0.02 * 0.1 * 4 / 5)


def test_a_token_waits_longer_in_a_pipeline() -> None:
    # The others' part of what prompts add to a round of a pipeline.
    piped = replace(LOOP, pp=4)
    assert piped.tpot_seconds == pytest.approx(0.01 + prompt_seconds(4, LOOP.at, 0.01) * 4 / 5)
    assert piped.tpot_seconds > LOOP.tpot_seconds


def test_a_prompt_waits_for_what_is_in_its_way() -> None:
    # Busy with prompts ÷ not busy: 1.6 ms ÷ 10 ms; a burst of 0.1 · 4 prompts; half a step; 20 ms + 1,000 · 8 us.
    waiting = 0.2 / 2 * (0.16 + 0.4)
    assert LOOP.ttft_seconds == pytest.approx(0.2 + waiting + 0.005 + 0.02 + 0.008)


def test_clients_without_room_queue() -> None:
    # Little's law: 10 clients before one, 5 leave in the time of an answer of 100 tokens.
    crowded = replace(LOOP, clients=15)
    assert crowded.ttft_seconds - LOOP.ttft_seconds == pytest.approx(10 / 5 * 100 * 0.0116)
    assert crowded.tpot_seconds == LOOP.tpot_seconds


def test_one_client_meets_nobody() -> None:
    alone = replace(LOOP, clients=1, batch=1)
    assert alone.tpot_seconds == 0.01
    assert alone.ttft_seconds == pytest.approx(0.2 + 0.005 + 0.028)


def test_a_loop_that_only_prefills_has_a_finite_queue() -> None:
    # 95 % busy at most: 19 halves of a prompt.
    full = replace(LOOP, at=Round(1e-6, 1, 0.1, 0.2))
    assert full.ttft_seconds == pytest.approx(0.2 + 0.1 * (19 + 0.4) + 0.028, rel=1e-4)


@given(st.integers(1, 500), st.integers(0, 500))
def test_more_clients_wait_longer(batch: int, others: int) -> None:
    few, many = (replace(LOOP, batch=batch, clients=batch + extra) for extra in (0, others))
    assert few.ttft_seconds <= many.ttft_seconds
    assert LOOP.at.decode <= few.tpot_seconds < LOOP.at.decode + LOOP.at.waits * LOOP.at.service
