"""The rounds of one strategy, its room, and its steps."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_settings import dense_model, latent_model, moe_model, setting, space_of

from lts_bench.cost import evaluator
from lts_bench.cost.best_batch import taken
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.cost.steady import tpot_seconds
from lts_bench.specs.model import Model


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("model", [dense_model(8), moe_model()])
def test_an_evaluation_is_at_one_of_the_rounds(model: Model, mixed: bool) -> None:
    space, cost = space_of(setting(model, "h100x16", "isl=2048,osl=64", mixed_prefill=mixed))
    vectors = space.sample(60, np.random.default_rng(3))
    batches = cost.setting.phases.batches
    for vector, row in zip(vectors, cost.raw(vectors), strict=True):
        rung = np.searchsorted(batches, row[evaluator.BATCH])
        if row[evaluator.FEASIBLE] and batches[rung] == row[evaluator.BATCH]:
            at, pp = taken(cost.rounds(vector), rung), space.decode(vector).degrees.pp
            assert row[evaluator.ROUND_SECONDS] == pytest.approx(at.decode, rel=1e-12)
            assert row[evaluator.TPOT] == pytest.approx(tpot_seconds(pp, at, at.decode), rel=1e-12)


def test_a_prompt_in_a_decode_step_costs_what_the_step_takes_beyond_a_slot() -> None:
    place = setting(dense_model(8), "h100x16", "isl=2048,osl=64", mixed_prefill=True)
    space, cost = space_of(place)
    for vector in space.sample(40, np.random.default_rng(5)):
        at, pp = cost.rounds(vector), space.decode(vector).degrees.pp
        total, heaviest = (each[place.phases.decode.stop :] for each in cost.stage_seconds(vector))
        share = cost.program.shares[cost.program.wait_row[vector[0]], FIRST_RUNG:][: len(total)]
        others = [each[PREFILL] - each[LONE_PREFILL] for each in cost.stage_seconds(vector)]
        assert at.prefill - share * others[0] + at.decode / pp == pytest.approx(total)
        assert at.service - share * others[1] == pytest.approx(np.maximum(heaviest - at.decode / pp, 0))


def test_a_mixed_step_costs_less_than_its_parts_and_more_than_the_decode_step() -> None:
    # The weights are read once for both.
    place = setting(dense_model(8), workload="isl=64,osl=64", mixed_prefill=True)
    _, cost = space_of(place)
    total, _ = cost.stage_seconds(np.zeros(len(cost.program.sizes), dtype=np.int64))
    decode, mixed = total[place.phases.decode], total[place.phases.decode.stop :]
    assert (mixed > decode).all()
    assert mixed[0] < decode[0] + total[LONE_PREFILL]


def test_the_capacity_is_the_largest_batch_that_fits() -> None:
    _, cost = space_of(setting(dense_model(8), memory_fraction=2e-3))
    vector = np.zeros(len(cost.program.sizes), dtype=np.int64)
    most = cost.capacity(vector)
    held = [cost.memory_parts(vector, batch) for batch in (most, most + 1)]
    used = [parts["weights"] + parts["kv"] + parts["buffers"] for parts in held]
    assert 0 < most < cost.setting.engine.max_batch
    assert used[0] <= held[0]["limit"] < used[1]


@pytest.mark.parametrize("model", [dense_model(8), moe_model(), latent_model()])
def test_a_mixed_step_is_never_faster_than_the_decode_step(model: Model) -> None:
    place = setting(model, "h100x16", "isl=16,osl=64", mixed_prefill=True, max_batch=512)
    space, cost = space_of(place)
    for vector in space.sample(200, np.random.default_rng(7)):
        total, heaviest = cost.stage_seconds(vector)
        for seconds in (total, heaviest):
            assert (seconds[place.phases.decode.stop :] >= seconds[place.phases.decode]).all()
