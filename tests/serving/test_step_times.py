from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_settings import dense_model, moe_model

from lts_bench.cost.phases import Phases
from lts_bench.serving.step_tables import Served, build_step_times
from lts_bench.serving.step_times import (
    ALL_STAGES,
    HEAVIEST,
    attention_seconds,
    constant_times,
    decode_seconds,
    interpolate,
    linear_seconds,
    prefill_seconds,
)
from lts_bench.serving.steps import SHORT_PROMPT, token_grid
from lts_bench.space.check import check_strategy
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.model import Model
from lts_bench.specs.workload import parse_workload
from lts_bench.validate.deployment import Deployment

LONGEST = 1024


def served(model: Model, engine: str = "generic", **degrees: int) -> Served:
    cluster = load_cluster("h100x8")
    strategy = check_strategy({"replicas": 1, "pp": 1, "dp": 1, "tp": 1, **degrees}, model, cluster).strategy
    return Served(model, cluster, load_engine(engine), parse_workload("isl=512,osl=2"), strategy)


def closed_form(one: Served, isl: int, batches: list[int], prompts: int = 1) -> list[Any]:
    workload = parse_workload(f"isl={isl},osl=2")
    deployment = Deployment(one.model, one.cluster, one.engine, workload, one.strategy, prompts)
    return [deployment.at(batch) for batch in batches]


def test_linear_between_points() -> None:
    grid, values = np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 60.0])
    found = [interpolate(grid, values, x) for x in (0.5, 1, 1.5, 2, 3, 4, 5)]
    assert found == pytest.approx([10, 10, 15, 20, 40, 60, 80])


def test_constant_times() -> None:
    times = constant_times(0.01, 0.001, rows=4)
    assert decode_seconds(times, HEAVIEST, 3, 1000.0) == 0.01
    assert prefill_seconds(times, ALL_STAGES, 70, 3, 0.0) == pytest.approx(0.07)
    assert attention_seconds(times, HEAVIEST, 5, 100) == 0


@given(st.integers(1, 200_000))
def test_grid_covers_the_longest(longest: int) -> None:
    grid = token_grid(longest)
    assert grid[0] == 1 and grid[-1] >= longest and len(grid) >= 2
    assert (grid[grid > SHORT_PROMPT] % SHORT_PROMPT == 0).all()
    assert (np.diff(grid) > 0).all() and (grid[1:] / grid[:-1] <= 2).all()


@pytest.mark.parametrize(
    ("model", "degrees"), [(dense_model(), {"tp": 2}), (dense_model(), {"pp": 2}), (moe_model(), {"dp": 4, "ep": 4})]
)
def test_points_are_the_closed_form(model: Model, degrees: dict[str, int]) -> None:
    one = served(model, **degrees)
    pp, dp = degrees.get("pp", 1), degrees.get("dp", 1)
    times = build_step_times(one, rows=16, longest=LONGEST)
    for isl in (64, 512, 1024):
        for batch in (1, 4, 16):
            (at,) = closed_form(one, isl, [batch])
            both = [decode_seconds(times, stages, batch, isl + 1.0) for stages in (HEAVIEST, ALL_STAGES)]
            assert max(pp * both[HEAVIEST], both[ALL_STAGES]) == pytest.approx(at.decode)
    # A prompt of one rank alone, and of all ranks.
    cost, vector = one.cost(Phases.of(one.workload, one.engine))
    total, heaviest = cost.stage_seconds(vector)
    stage = np.array([heaviest, total])
    for stages in (HEAVIEST, ALL_STAGES):
        attention = attention_seconds(times, stages, 0, 512)
        assert linear_seconds(times, stages, 512, 0.0) + attention == pytest.approx(stage[stages, 1])
        if dp > 1:
            assert linear_seconds(times, stages, 512, 1.0) + attention == pytest.approx(stage[stages, 0], rel=0.02)


def test_several_prompts_in_a_step() -> None:
    one = served(load_model("llama-3.1-8b"))
    times = build_step_times(one, rows=1, longest=2048)
    (at,) = closed_form(one, 256, [1], prompts=4)
    found = linear_seconds(times, HEAVIEST, 1024, 0.0) + 4 * attention_seconds(times, HEAVIEST, 0, 256)
    assert found == pytest.approx(at.prefill, rel=0.02)


def test_a_mixed_step_is_the_closed_form_s() -> None:
    one = served(load_model("llama-3.1-8b"), "trtllm")
    times = build_step_times(one, rows=64, longest=LONGEST)
    (at,) = closed_form(one, 512, [64])
    marginal = prefill_seconds(times, HEAVIEST, 512, 64, 0.0) + attention_seconds(times, HEAVIEST, 0, 512)
    assert marginal == pytest.approx(at.service, rel=0.03)


@given(st.integers(1, LONGEST - 1))
def test_chunks_add_up_to_the_prompt(cut: int) -> None:
    whole = attention_seconds(TIMES, HEAVIEST, 0, LONGEST)
    parts = attention_seconds(TIMES, HEAVIEST, 0, cut) + attention_seconds(TIMES, HEAVIEST, cut, LONGEST)
    assert parts == pytest.approx(whole)


@given(st.integers(1, 15), st.floats(1, LONGEST), st.floats(1, LONGEST))
def test_more_rows_and_context_take_no_less(rows: int, context: float, more: float) -> None:
    here = decode_seconds(TIMES, HEAVIEST, rows, context)
    assert decode_seconds(TIMES, HEAVIEST, rows + 1, context) >= here * (1 - 1e-12)
    assert decode_seconds(TIMES, HEAVIEST, rows, context + more) >= here * (1 - 1e-12)


def test_kv_room_is_the_capacity() -> None:
    # In mean lengths a rank holds as many sequences as the closed form allows.
    one = served(dense_model())
    (tokens, mean) = one.kv_tokens(), 513
    deployment = Deployment(one.model, one.cluster, one.engine, one.workload, one.strategy)
    assert deployment.capacity == min(tokens // mean, one.engine.max_batch)


TIMES = build_step_times(served(dense_model()), rows=16, longest=LONGEST)
