from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_settings import cost_model, degrees, moe_model, setting, strategy, vector

from lts_bench.cost.collectives import Collective, least, seconds
from lts_bench.cost.exchange import exchange
from lts_bench.cost.experts import LETTERS, ExpertCosts, expert_key
from lts_bench.cost.nodes import WEIGHTS, Setting
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL
from lts_bench.space.strategy import Degrees
from lts_bench.specs.config import load_model
from lts_bench.specs.layers import MoeFfn

HIDDEN = 512


def costs(place: Setting, d: Degrees) -> ExpertCosts:
    ffn = next(layer.ffn for layer in place.model.layers if isinstance(layer.ffn, MoeFfn))
    return ExpertCosts(place, ffn, [expert_key(place.cluster, d, place.redundant_experts)])


def weights(place: Setting, d: Degrees, letter: str = "R") -> float:
    one = costs(place, d)
    return float(sum(one.memory(place.model.hidden, up)[0, LETTERS.index(letter), WEIGHTS] for up in (True, False)))


def test_slots_of_a_rank() -> None:
    place = setting(moe_model())
    expert = 3 * 256 * HIDDEN * 2
    assert weights(place, degrees(tp=8, ep=8)) == expert
    assert weights(place, degrees(tp=8, ep=2)) == 4 * expert
    assert weights(place, degrees(tp=8, ep=2), "N") == expert


def test_redundant_experts_of_deepseek() -> None:
    # 256 experts and 32 copies on 32 ranks: 9 instead of 8 an each of 58 layers, 44,040,192 weights of one byte.
    model = load_model("deepseek-v3")
    model = replace(model, precision=replace(model.precision, default=replace(model.precision.default, block=None)))
    d = degrees(dp=32, ep=32)
    plain, more = (setting(model, "h100x32", redundant_experts=copies) for copies in (0, 32))
    assert 58 * (weights(more, d) - weights(plain, d)) == 58 * 44_040_192 == pytest.approx(2.554e9, rel=1e-3)


def test_uneven_ranks_are_priced_by_the_fullest() -> None:
    place = setting(moe_model(128), "h100x32", padding=True)
    assert weights(place, degrees(dp=24, ep=24)) == 6 * 3 * 256 * HIDDEN * 2


def test_a_device_alone_exchanges_nothing() -> None:
    alone = costs(setting(moe_model()), degrees())
    assert not alone.routed_in(HIDDEN)[True].any()
    assert not any(each.any() for each in alone.routed_out(HIDDEN).values())
    assert not any(each.any() for each in alone.everywhere(HIDDEN))


def test_a_lone_prompt_gives_the_experts_its_own_tokens() -> None:
    # isl = 256 over 8 ranks: as many tokens as 32 sequences a rank, and prompts of all ranks as many as 256.
    place = setting(moe_model())
    spread = costs(place, degrees(dp=8, ep=2))
    rung = {batch: FIRST_RUNG + place.phases.batches.tolist().index(batch) for batch in (32, 256)}
    for time in (spread.products(HIDDEN), *spread.everywhere(HIDDEN)):
        assert time[..., LONE_PREFILL] == pytest.approx(time[..., rung[32]])
        assert time[..., PREFILL] == pytest.approx(time[..., rung[256]])
        assert (time[..., LONE_PREFILL] < time[..., PREFILL]).all()


def test_the_rank_of_a_lone_prompt_sends_as_much_as_any() -> None:
    place = setting(moe_model())
    spread, one = costs(place, degrees(dp=8, ep=8)), costs(place, degrees(tp=8, ep=8))
    sent = spread.routed_in(HIDDEN)[False]
    assert sent[0, LONE_PREFILL] == sent[0, PREFILL] > 0
    for time in (one.products(HIDDEN), one.routed_in(HIDDEN)[True], *one.everywhere(HIDDEN)):
        assert (time[..., LONE_PREFILL] == time[..., PREFILL]).all()


def test_decode_exchanges_with_low_latency_and_prefill_does_not() -> None:
    place = setting(moe_model(), "h100x32")
    spread = costs(place, degrees(dp=32, ep=8))
    group = expert_key(place.cluster, degrees(dp=32, ep=8)).ep_group
    assert group.domains == 4
    sent = place.phases.tokens * HIDDEN * 2.0
    decode = np.arange(len(place.phases)) >= FIRST_RUNG
    for direction, time in (("dispatch", spread.routed_in(HIDDEN)[False]), ("combine", spread.routed_out(HIDDEN)["R"])):
        for mode, phases in (("low_latency", decode), ("normal", ~decode)):
            table = exchange(place.cluster, group, mode, direction, 2)  # type: ignore[arg-type]
            assert time[0, phases] == pytest.approx(least(table, sent[phases]))


def test_tokens_replicated_over_tp_are_sliced_before_dispatch() -> None:
    place = setting(moe_model())
    whole, sliced = costs(place, degrees(dp=8, ep=8)), costs(place, degrees(tp=8, ep=8))
    eight = np.flatnonzero(place.phases.batches == 8)[0] + FIRST_RUNG
    assert sliced.routed_in(HIDDEN)[False][0, eight] == whole.routed_in(HIDDEN)[False][0, FIRST_RUNG]


def test_expert_tensor_parallelism_has_no_free_dispatch() -> None:
    place = setting(moe_model())
    split = costs(place, degrees(dp=8, ep=2))  # etp 4 over data-parallel ranks
    into = split.routed_in(HIDDEN)
    assert (into[True] > into[False]).all() and (into[False] > 0).all()
    back = split.routed_out(HIDDEN)
    assert (back["K"] > back["M"]).all() and (back["N"] > back["M"]).all()
    gather, reduce = split.everywhere(HIDDEN)
    assert (gather > 0).all() and (reduce > 0).all()


def test_conversions_between_the_products() -> None:
    split = costs(setting(moe_model()), degrees(tp=8, ep=2))
    time = split.products(HIDDEN)[0]
    up, down = (dict(zip(LETTERS, range(4), strict=True)) for _ in range(2))
    own = split.products(HIDDEN)[0] - split._between(512)[0]
    between = time - own
    assert not between[up["N"], down["K"]].any()  # column then row
    assert not between[up["M"], down["M"]].any()
    assert (between[up["N"], down["R"]] > 0).all() and (between[up["K"], down["R"]] > 0).all()
    # Partial sums of gate and up are twice as wide as their product.
    mid = 256 * 2 / 2 * 256 * 2.0
    expected = seconds(split.over_etp, Collective.ALL_REDUCE, np.array([[2 * mid]]))[0, 0]
    assert between[up["K"], down["R"], 0] == pytest.approx(expected)


def test_skew_never_helps() -> None:
    even, skewed = (setting(moe_model(), expert_imbalance=skew) for skew in (1.0, 2.0))
    d = degrees(dp=4, ep=4)
    slow, fast = costs(skewed, d).products(HIDDEN), costs(even, d).products(HIDDEN)
    assert (slow >= fast).all() and (slow > fast).any()
    alone = degrees(tp=4)
    assert (costs(skewed, alone).products(HIDDEN) == costs(even, alone).products(HIDDEN)).all()


def test_copies_take_the_skew_down() -> None:
    d = degrees(dp=4, ep=4)
    plain, more = (setting(moe_model(), expert_imbalance=3.0, redundant_experts=copies) for copies in (0, 8))
    tokens = np.array([[4096.0]])
    # 16 slots for 8 experts: as many copies a rank, skew 1 + 2/2 instead of 3.
    assert costs(more, d)._load(tokens)[0] / costs(plain, d)._load(tokens)[0] == pytest.approx(2048 * 2 / (2048 * 3))


def test_few_tokens_touch_few_experts() -> None:
    one = costs(setting(moe_model(128), expert_popularity_shape=None), degrees())
    copies, rows, touched = one._load(np.array([[1.0, 64.0, 1e6]]))
    assert copies[0] == pytest.approx([2.0, 128.0, 2e6])
    assert touched[0] == pytest.approx([2.0, 128 * (1 - (1 - 2 / 128) ** 64), 128.0])
    # A tile of 64 rows for each, and half of one more where there are many.
    assert rows[0] == pytest.approx([2 * 64, touched[0, 1] * 64, 2e6 + 128 * 32])


def test_splitting_tokens_over_etp_touches_fewer_experts() -> None:
    place = setting(moe_model(128))
    split = costs(place, degrees(tp=8, ep=1)).products(HIDDEN)[0]
    alone = costs(place, degrees()).products(HIDDEN)[0]
    m = LETTERS.index("M")
    one, eight = FIRST_RUNG, np.flatnonzero(place.phases.batches == 8)[0] + FIRST_RUNG
    assert split[m, m, eight] == pytest.approx(alone[m, m, one])


def test_the_cheaper_way_of_exchange_is_taken() -> None:
    # All experts on every device: nothing has to be sent before the products, one all-reduce after.
    model = moe_model()
    cost = cost_model(setting(model), degrees(tp=8))
    chosen = vector(model, cost, strategy(model, degrees(tp=8)))
    block = next(block for block in cost.tables.blocks if block.name == "moe")
    edge = next(edge for edge in block.edges if edge.role == "dispatch")
    table = cost.tables.edge_of(block, edge)
    row = table.base[0] + 0 * table.targets[0] + LETTERS.index("N")
    assert not cost.tables.distinct_times[cost.tables.which[row]].any()
    assert cost.evaluate(chosen)["legal"].all()
