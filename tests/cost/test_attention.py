from __future__ import annotations

import numpy as np
import pytest
from test_nodes import Priced
from tiny_settings import degrees, dense_model, latent_model, setting

from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.kernels import decode_attention_seconds, latent_decode_seconds, prefill_attention_seconds
from lts_bench.cost.nodes import KV_FULL, KV_MEAN, Setting
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.specs.chip import load_chip
from lts_bench.specs.config import load_model
from lts_bench.specs.formats import Precision
from lts_bench.specs.layers import Attention, DenseFfn, Layer, LinearMixer
from lts_bench.specs.model import Model

CORE = "attention.core"
ISL, OSL = 256, 128
MEAN, FULL = ISL + OSL / 2, ISL + OSL
H100 = load_chip("h100")


def decoding(sequences: np.ndarray, context: float, heads: int = 8, kv_heads: int = 4) -> np.ndarray:
    """Heads of 64 with a cache of 16 bit."""
    return decode_attention_seconds(
        H100,
        kv_bytes=sequences * context * 2 * kv_heads * 64 * 2,
        flops=4 * sequences * heads * context * 64,
        blocks=sequences * kv_heads,
        context=np.array(context),
    )


def prefilling(length: int, heads: int = 8, kv_heads: int = 4, queries: float | None = None) -> float:
    """Causal attention of one prompt with heads of 64; ``queries`` of its tokens where these are split."""
    time = prefill_attention_seconds(
        H100,
        H100.kernels.prefill_attention,
        heads=np.array([heads]),
        kv_heads=np.array([kv_heads]),
        queries=np.array([queries or length]),
        keys=length / 2,
        longest=length,
        width=2 * 64,
    )
    return float(time[0])


def cache(place: Setting, tp: int, letters: str, column: int = KV_MEAN) -> float:
    return float(Priced(place, degrees(tp=tp)).node(CORE, letters)[1][column])


@pytest.mark.parametrize(("tp", "per_token"), [(1, 36_864), (2, 18_432), (4, 18_432), (8, 18_432)])
def test_kv_bytes_of_two_heads_on_many_devices(tp: int, per_token: int) -> None:
    # 36 layers of 2 KV heads of 128, keys and values in 16 bit.
    layer = Layer(Attention(16, 2, 128), DenseFfn(1024), vectors=0)
    place = setting(Model("qwen", 2048, 1000, (layer,)))
    assert 36 * cache(place, tp, "heads" if tp > 1 else "R") / MEAN == per_token


def test_a_latent_cache_is_replicated_over_heads() -> None:
    model = load_model("deepseek-v3")
    place = setting(model, kv_reservation="full")
    on_heads, alone = cache(place, 8, "heads"), cache(place, 1, "R")
    assert on_heads == alone
    assert 61 * on_heads / FULL == pytest.approx(70_272)
    assert cache(place, 8, "batch") == pytest.approx(on_heads / 8)


def test_split_sequences_still_need_room_for_a_whole_one() -> None:
    place = setting(dense_model())
    token = 2 * 4 * 64 * 2
    assert cache(place, 8, "batch", KV_MEAN) == token * MEAN / 8
    assert cache(place, 8, "batch", KV_FULL) == token * FULL
    assert cache(place, 8, "kv_sequence", KV_FULL) == token * FULL / 8


def test_windows_and_full_pages() -> None:
    # gpt-oss: 12 of 24 layers see 128 tokens: 32 sequences of 8,192 take 6.094 or 12 GiB, one of 131,072 3.003 or 6.
    model = load_model("gpt-oss-20b")
    for isl, batch, windowed, full in ((8191, 32, 6.094, 12.0), (131_071, 1, 3.003, 6.0)):
        for policy, expected in (("freed", windowed), ("kept", full)):
            place = setting(model, workload=f"isl={isl},osl=1", sliding_window=policy, kv_reservation="full")
            priced = Priced(place, degrees())
            total = 0.0
            for block in priced.layers:
                count = sum(layer == block.layer for layer in model.layers)
                operator = priced.tables.pricing.operator(block, CORE)
                total += count * priced.prices.node(block, operator)[1][0, 3, KV_MEAN]
            assert batch * total / 2**30 == pytest.approx(expected, abs=2e-3)


def test_decode_reads_the_cache_once() -> None:
    place = setting(dense_model(), workload="isl=4000,osl=96")
    time, _ = Priced(place, degrees()).node(CORE, "R")
    assert time[FIRST_RUNG:] == pytest.approx(decoding(place.phases.batches, 4048))


def test_prefill_is_causal() -> None:
    place = setting(dense_model(), workload="isl=8192,osl=96")
    time, _ = Priced(place, degrees()).node(CORE, "R")
    assert time[PREFILL] == pytest.approx(prefilling(8192))


def test_a_window_is_all_that_a_query_sees() -> None:
    windowed = setting(Model("windowed", 512, 1000, (Layer(Attention(8, 4, 64, window=128), DenseFfn(1024), 0),)),
                       workload="isl=8192,osl=96", sliding_window="freed")  # fmt: skip
    time, _ = Priced(windowed, degrees()).node(CORE, "R")
    expected = prefill_attention_seconds(
        H100,
        H100.kernels.prefill_attention,
        heads=np.array(8.0),
        kv_heads=np.array(4.0),
        queries=np.array(8192.0),
        keys=128 - 128**2 / (2 * 8192),
        longest=128,
        width=128,
    )
    assert time[PREFILL] == pytest.approx(expected)
    assert time[FIRST_RUNG:] == pytest.approx(decoding(windowed.phases.batches, 128))


def test_absorbed_decode_works_on_latents() -> None:
    # flops 2·b·L·heads·(2·rank + rope); bytes b·L·(rank + rope).
    model = latent_model()
    place = setting(model, workload="isl=100000,osl=2")
    time, _ = Priced(place, degrees()).node(CORE, "R")
    b, length = place.phases.batches, 100_001
    expected = latent_decode_seconds(
        H100,
        kv_bytes=b * length * 40 * 2,
        flops=2.0 * b * length * 8 * (2 * 32 + 8),
        heads=b * 8,
        width=2 * 32 + 8,
        context=np.array(length),
    )
    assert time[FIRST_RUNG:] == pytest.approx(expected)
    # Prefill expands: (16 + 8) for keys and 16 for values, keys and values for every head.
    prompt = prefill_attention_seconds(
        H100,
        H100.kernels.latent_prefill,
        heads=np.array(8.0),
        kv_heads=np.array(8.0),
        queries=np.array(100_000.0),
        keys=50_000,
        longest=100_000,
        width=24 + 16,
    )
    assert time[PREFILL] == pytest.approx(prompt)


def test_splits_of_the_core() -> None:
    place = setting(dense_model(kv_heads=8), workload="isl=8192,osl=1024")
    priced = Priced(place, degrees(tp=8))
    whole, heads, batch, sequence = (priced.node(CORE, name)[0] for name in ("R", "heads", "batch", "kv_sequence"))
    assert (heads <= whole).all() and (sequence[PREFILL] < whole[PREFILL])
    b = place.phases.batches
    assert heads[FIRST_RUNG:] == pytest.approx(decoding(b, 8704, 1, 1))
    assert batch[FIRST_RUNG:] == pytest.approx(decoding(np.ceil(b / 8), 8704, 8, 8))
    assert batch[FIRST_RUNG] == whole[FIRST_RUNG]  # a single sequence cannot be split


def test_split_prompts_gather_keys_and_values_and_hand_them_over() -> None:
    place = setting(dense_model(), workload="isl=8192,osl=1024")
    priced = Priced(place, degrees(tp=8))
    regimes = priced.prices.mesh.regimes((0,))
    kv = np.array([[8192 * 2 * 4 * 64 * 2.0]])
    gather = seconds(regimes, Collective.ALL_GATHER, kv)[0, 0]
    handed = seconds(regimes, Collective.ALL_TO_ALL, kv / 8)[0, 0]
    kernel = prefilling(8192, queries=8192 / 8)
    assert priced.node(CORE, "kv_sequence")[0][PREFILL] == pytest.approx(kernel + gather)
    assert priced.node(CORE, "batch")[0][PREFILL] == pytest.approx(kernel + gather + handed)


def test_heads_and_tokens_on_two_axes_gather_their_heads_alone() -> None:
    place = setting(dense_model(), workload="isl=65536,osl=1024")
    priced = Priced(place, degrees(tp=8, tx=4))
    regimes = priced.prices.mesh.regimes((1,))
    kv = np.array([[65536 * 2 * 4 * 64 * 2.0]])
    kernel = prefilling(65536, 2, 1, queries=65536 / 2)
    gather = seconds(regimes, Collective.ALL_GATHER, kv / 4)[0, 0]
    assert priced.node(CORE, "heads,kv_sequence")[0][PREFILL] == pytest.approx(kernel + gather)


def test_partial_softmax_carries_two_statistics_a_head() -> None:
    place = setting(dense_model(), workload="isl=8192,osl=1024")
    priced = Priced(place, degrees(tp=8))
    b = place.phases.batches
    reduce = seconds(priced.prices.mesh.regimes((0,)), Collective.ALL_REDUCE, (b * 8 * 2 * 4.0)[None])[0]
    assert priced.node(CORE, "kv_sequence")[0][FIRST_RUNG:] == pytest.approx(decoding(b, 8704 / 8) + reduce)


def test_a_recurrence_holds_its_state_whatever_the_length() -> None:
    mixer = LinearMixer(8, 1024, 512, state_elements=65_536, state_dtype="fp32", conv_elements=1_536)
    model = Model("linear", 512, 1000, (Layer(mixer, DenseFfn(1024), 0),), precision=Precision())
    for workload in ("isl=16,osl=16", "isl=9999,osl=16"):
        place = setting(model, workload=workload)
        assert cache(place, 1, "R") == 64_000 * 4 + 1_536 * 2 == mixer.state_bytes
        assert cache(place, 8, "heads") == mixer.state_bytes / 8


def test_norms_over_all_heads_are_reduced_where_heads_are_split() -> None:
    # A mean square of the query and one of the key for every token, 4 bytes each.
    joint, apart = (
        Priced(setting(Model("normed", 512, 1000, (Layer(Attention(8, 8, 64, joint_norm=norm), DenseFfn(1024), 0),))),
               degrees(tp=8))
        for norm in (True, False)
    )  # fmt: skip
    tokens = joint.prices.setting.phases.tokens
    regimes = joint.prices.mesh.regimes((0,))[0]
    for split, expected in (("heads", seconds(regimes, Collective.ALL_REDUCE, 8 * tokens)), ("R", 0 * tokens)):
        added = joint.node(CORE, split)[0] - apart.node(CORE, split)[0]
        assert added == pytest.approx(expected, abs=1e-12)
