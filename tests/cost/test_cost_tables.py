from __future__ import annotations

import numpy as np
import pytest
from tiny_settings import (
    cost_model,
    degrees,
    dense_model,
    latent_model,
    moe_model,
    setting,
    space_of,
    strategy,
)

from lts_bench.cost.graph import block_counts
from lts_bench.cost.nodes import KV_MEAN, WEIGHTS
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL, batch_ladder
from lts_bench.cost.tables import Tables
from lts_bench.space.strategy import Strategy
from lts_bench.specs.config import load_model
from lts_bench.specs.layers import Attention, DenseFfn, Layer
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import apply_precision


def position(tables: Tables, decision: int, chosen: Strategy) -> int:
    operator = tables.rules.operators[decision - 1]
    axes = 1 if operator.axes == 1 else tables.pricing.two_axes[tables.degrees.index(chosen.degrees)] + 1
    choice = chosen.sharding[operator.key][-axes:]
    index = 0
    for letter in choice:
        index = index * len(operator.letters) + operator.letters.index(letter)
    return index


def block_seconds(tables: Tables, chosen: Strategy) -> np.ndarray:
    """(blocks, phases) sums of table rows."""
    index = tables.degrees.index(chosen.degrees)
    time = np.zeros((len(tables.blocks), len(tables.setting.phases)))
    for edge in tables.edges:
        targets = edge.targets[tables.pricing.two_axes[index]]
        row = edge.base[index] + position(tables, edge.source, chosen) * targets
        time[edge.block] += tables.seconds(edge, row + position(tables, edge.target, chosen))
    return time


def block_bytes(tables: Tables, chosen: Strategy) -> np.ndarray:
    """(blocks, columns) of memory; buffers are added up, too."""
    index = tables.degrees.index(chosen.degrees)
    memory = np.zeros((len(tables.blocks), 4))
    for operator in tables.operators:
        memory[operator.block] += tables.memory[operator.base[index] + position(tables, operator.source, chosen)]
    return memory


def rung(tables: Tables, batch: int) -> int:
    return FIRST_RUNG + tables.setting.phases.batches.tolist().index(batch)


@pytest.mark.parametrize("model", [dense_model(), moe_model(), latent_model()], ids=lambda model: model.name)
@pytest.mark.parametrize("cluster", ["h100x16", "tpu-v5p-4x4x4", "mi300x-8", "gb200x72"])
def test_time_rises_with_the_batch_and_is_finite(model: Model, cluster: str) -> None:
    space, cost = space_of(setting(model, cluster))
    legal = cost.tables.distinct_times[cost.tables.distinct_times[:, PREFILL] < 1e14]
    assert len(space.degrees) and (legal >= 0).all() and (legal < 1e3).all()
    assert (np.diff(legal[:, FIRST_RUNG:], axis=1) >= -1e-15).all()


@pytest.mark.parametrize("model", [dense_model(), moe_model(), latent_model()], ids=lambda model: model.name)
@pytest.mark.parametrize("cluster", ["h100x16", "tpu-v5p-4x4x4"])
def test_the_prompt_of_one_rank_takes_no_longer_than_those_of_all(model: Model, cluster: str) -> None:
    _, cost = space_of(setting(model, cluster))
    lone, every = cost.tables.distinct_times[:, LONE_PREFILL], cost.tables.distinct_times[:, PREFILL]
    assert (lone <= every * (1 + 1e-12)).all()
    assert (lone < every).any() == model.is_moe


def test_a_lone_prompt_is_cheaper_for_the_experts_only() -> None:
    model = moe_model()
    for d in (degrees(tp=8), degrees(dp=8, ep=8), degrees(dp=4, tp=2, ep=2)):
        tables = cost_model(setting(model), d).tables
        for block in tables.blocks:
            for edge in block.edges:
                place = tables.edge_of(block, edge)
                first = tables.seconds(place, place.base[0])
                if edge.role == "plain" or d.dp == 1:
                    assert first[LONE_PREFILL] == first[PREFILL], edge
                elif edge.role == "experts":
                    assert first[LONE_PREFILL] < first[PREFILL]


LETTERS_OF_DP = {
    "stream": "M", "attention__qkv": "M", "attention__core": "batch", "attention__out": "M",
    "ffn__up": "M", "ffn__down": "M", "shared__up": "M", "shared__down": "M", "router": "M", "embed": "M", "head": "M",
    "attention__q_down": "M", "attention__q_up": "M", "attention__kv_down": "M", "attention__kv_up": "M",
}  # fmt: skip


@pytest.mark.parametrize("model", [moe_model(), latent_model()], ids=lambda model: model.name)
@pytest.mark.parametrize(("cluster", "size"), [("h100x8", 8), ("h100x16", 16), ("tpu-v5p-4x4x4", 8)])
@pytest.mark.parametrize("ep", [1, 8])
def test_data_parallel_attention_is_tokens_over_tp(model: Model, cluster: str, size: int, ep: int) -> None:
    """dp = p, tp = 1 with b a rank and tp = p with all on tokens and p·b sequences are one execution."""
    place = setting(model, cluster, workload="isl=65536,osl=128")
    ranks, group = degrees(dp=size, ep=ep), degrees(tp=size, ep=ep)
    tables = cost_model(place, ranks, group).tables
    apart, together = strategy(model, ranks), strategy(model, group, **LETTERS_OF_DP)
    one, other = block_seconds(tables, apart), block_seconds(tables, together)
    for batch in (1, 2, 8, 32):
        expected = one[:, rung(tables, batch)]
        assert other[:, rung(tables, batch * size)] == pytest.approx(expected, rel=1e-12), batch
    weights = (block_bytes(tables, each)[:, WEIGHTS] for each in (apart, together))
    assert next(weights) == pytest.approx(next(weights))
    kv = [block_bytes(tables, each)[:, KV_MEAN] for each in (apart, together)]
    assert kv[0] == pytest.approx(size * kv[1])  # p times the sequences, the same bytes
    assert (one[:, PREFILL].sum() > other[:, PREFILL].sum()).all()  # tp splits one prompt


def test_equal_letters_on_two_axes_are_one_axis_up_to_their_collectives() -> None:
    # Two collectives of few devices may be faster than one of many, as measured on 4 x 4 and 16 devices.
    model = dense_model(heads=32, kv_heads=32)
    place = setting(model, "h100x16")
    one, two = degrees(tp=8), degrees(tp=8, tx=2)
    tables = cost_model(place, one, two).tables
    for letters in ({}, {"stream": "M"}, {"ffn__up": "K", "ffn__down": "N", "attention__core": "batch"}):
        narrow = block_seconds(tables, strategy(model, one, **letters))
        wide = block_seconds(tables, strategy(model, two, **{k: f"{v},{v}" for k, v in letters.items()}))
        assert (wide <= narrow * (1 + 1e-12)).all() and (wide >= 0.8 * narrow).all(), letters
    memory = [block_bytes(tables, strategy(model, d)) for d in (one, two)]
    assert memory[0] == pytest.approx(memory[1])


def test_kinds_with_unlike_layers_share_no_legality() -> None:
    # Kind "moe" holds a layer of 6 heads beside one of 8: 8 devices cannot split it on heads, "dense" can.
    wide, narrow = Attention(8, 8, 64), Attention(6, 6, 64)
    ffn = moe_model().layers[1].ffn
    layers = (Layer(wide, ffn), Layer(narrow, ffn), Layer(wide, DenseFfn(1024)))
    model = Model("mixed", 512, 1000, layers)
    space, cost = space_of(setting(model))
    vectors = space.sample(500, np.random.default_rng(0))
    assert cost.evaluate(vectors)["legal"].all()


def test_weights_add_up_to_the_parameters() -> None:
    for name in ("llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b"):
        model = apply_precision(load_model(name), "bf16")
        tables = cost_model(setting(model), degrees()).tables
        memory = block_bytes(tables, strategy(model, degrees()))[:, WEIGHTS]
        vectors = 2 * model.vectors
        counted = (tables.stages.totals[0] * memory).sum() + vectors
        # Biases of experts and routers are left aside.
        assert counted == pytest.approx(2 * model.parameters.total, rel=2e-3), name


def test_deepseek_stages() -> None:
    model = apply_precision(load_model("deepseek-v3"), "bf16")
    for split, heaviest in (((16, 15, 15, 15), [152.27, 172.61, 172.61, 173.54]), ((15, 16, 15, 15), [None, 184.12])):
        place = setting(model, "h100x8", workload="isl=16,osl=16")
        tables = Tables(place, [degrees(pp=4)], split)
        memory = block_bytes(tables, strategy(model, degrees(pp=4)))[:, WEIGHTS] / 2e9
        found = [float(np.dot(row, memory)) for row in block_counts(model, tables.blocks, split)]
        for value, expected in zip(found, heaviest, strict=False):
            if expected is not None:
                assert value == pytest.approx(expected, abs=6e-3)
        assert max(found) == pytest.approx(max(x for x in heaviest if x), abs=6e-3)


def test_attention_of_deepseek_on_data_parallel_ranks() -> None:
    model = load_model("deepseek-v3")
    ranks, group = degrees(dp=8, ep=8), degrees(tp=8, ep=8)
    tables = cost_model(setting(model), ranks, group).tables
    attention = [index for index, block in enumerate(tables.blocks) if block.layer]

    def bytes_of(chosen: Strategy) -> float:
        total, row = 0.0, tables.degrees.index(chosen.degrees)
        for operator in tables.operators:
            name = tables.rules.operators[operator.source - 1].name
            if operator.block in attention and name.startswith("attention."):
                count = tables.stages.totals[0][operator.block]
                total += count * tables.memory[operator.base[row] + position(tables, operator.source, chosen), WEIGHTS]
        return total

    assert bytes_of(strategy(model, ranks)) == pytest.approx(11.41e9, rel=2e-3)
    down = {"attention__q_down": "K", "attention__kv_down": "K"}
    assert bytes_of(strategy(model, group, **down)) == pytest.approx(1.43e9, rel=5e-3)
    # Megatron's pattern leaves the small down projections whole.
    assert bytes_of(strategy(model, group)) == pytest.approx(2.23e9, rel=1e-2)


def test_more_tensor_parallelism_is_not_always_faster() -> None:
    model = load_model("llama-3.1-8b")
    listed = [degrees(tp=tp) for tp in (1, 2, 4, 8, 16, 32)]
    cost = cost_model(setting(model, "h100x32"), *listed)
    step = [(cost.tables.stages.totals[0] @ block_seconds(cost.tables, strategy(model, d)))[FIRST_RUNG] for d in listed]
    assert step[3] < step[0]  # within a node it pays
    assert step[4] > step[3] and step[5] > step[4]  # across nodes it does not


def test_a_ladder_has_every_power_of_the_fourth_root_of_two() -> None:
    ladder = batch_ladder(2048)
    assert ladder[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {2**power for power in range(12)} <= set(ladder.tolist())
    assert batch_ladder(1000)[-1] == 1000 and batch_ladder(1).tolist() == [1]
    assert (ladder[1:] / ladder[:-1]).max() <= 2 and (ladder[9:] / ladder[8:-1] < 1.26).all()


def test_no_operator_beats_the_peak() -> None:
    model = dense_model()
    place = setting(model, workload="isl=8192,osl=128")
    for tp in (1, 8):
        d = degrees(tp=tp)
        tables = cost_model(place, d).tables
        time = (tables.stages.totals[0] @ block_seconds(tables, strategy(model, d)))[PREFILL]
        layer = 2 * 8192 * (model.layers[0].parameters(512) - 1024) + 2 * 8 * 8192**2 * 64
        assert time > len(model.layers) * layer / tp / 989e12
