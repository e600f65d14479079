from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tiny_settings import cost_model, degrees, dense_model, latent_model, moe_model, setting, strategy

from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.edges import input_state, output_state
from lts_bench.cost.graph import Edge, block_counts, joined, layer_block, model_blocks
from lts_bench.space.strategy import even_stages
from lts_bench.specs.config import load_model
from lts_bench.specs.model import Model

MODELS = [dense_model(), moe_model(), latent_model(), *map(load_model, ("qwen3-next-80b-a3b", "gpt-oss-120b"))]


def charged(edge: Edge) -> list[str]:
    if edge.role in ("dispatch", "experts"):
        return [edge.target]
    return {"target": [edge.target], "source": [edge.source], "none": []}[edge.charged]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_operator_of_a_layer_is_charged_once(model: Model) -> None:
    for layer in dict.fromkeys(model.layers):
        block = layer_block(model, layer)
        counts = Counter(name for edge in block.edges for name in charged(edge))
        branches = (layer.mixer is not None) + (layer.ffn is not None)
        assert counts.pop("stream") == branches
        expected = {*layer.operators(model.hidden), *(["attention.core"] if layer.mixer else [])}
        assert counts == Counter(expected)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_stages_hold_every_layer_embedding_and_head_once(model: Model) -> None:
    blocks = model_blocks(model)
    for pp in (1, 2, 3):
        counts = block_counts(model, blocks, even_stages(len(model.layers), pp))
        total = dict(zip((block.name for block in blocks), np.sum(counts, axis=0).tolist(), strict=True))
        assert total["embed"] == total["head"] == 1
        assert sum(row[i] for row in counts for i, block in enumerate(blocks) if block.layer) == len(model.layers)
        assert counts[0][-2] == 1 == counts[-1][-1]


def test_a_change_of_kind_belongs_to_the_later_stage() -> None:
    model = moe_model()  # dense, moe, moe
    blocks = model_blocks(model)
    change = next(i for i, block in enumerate(blocks) if block.other_kind)
    assert (blocks[change].kind, blocks[change].other_kind) == ("dense", "moe")
    assert [row[change] for row in block_counts(model, blocks, (1, 2))] == [0, 1]
    assert [row[change] for row in block_counts(model, blocks, (2, 1))] == [1, 0]


def test_latent_attention_absorbs_in_decode_and_expands_in_prefill() -> None:
    # 8 heads, latent 32 + 8 rotary, keys 16 + 8, values 16.
    edges = {
        (e.source, e.target, e.when): e.features for e in layer_block(latent_model(), latent_model().layers[0]).edges
    }
    up, core, out = "attention.kv_up", "attention.core", "attention.out"
    assert edges["attention.kv_down", core, "always"] == 40
    assert edges["attention.kv_down", up, "prefill"] == 32
    assert edges[up, core, "prefill"] == 8 * (16 + 16)
    assert edges["attention.q_up", up, "decode"] == 8 * (16 + 8)
    assert edges[up, core, "decode"] == 8 * 40
    assert edges[core, up, "decode"] == 8 * 32
    assert edges[up, out, "decode"] == edges[core, out, "prefill"] == 8 * 16
    assert ("attention.q_up", core, "decode") not in edges


@pytest.mark.parametrize(
    ("source", "target", "letter", "prefill", "state"),
    [
        ("stream", "attention.qkv", "K", True, "N"),
        ("attention.qkv", "attention.core", "heads", True, "N"),
        ("attention.qkv", "attention.core", "batch", False, "M"),
        ("attention.qkv", "attention.core", "kv_sequence", True, "M"),
        ("attention.qkv", "attention.core", "kv_sequence", False, "R"),
        ("attention.kv_down", "attention.core", "heads", False, "R"),  # a latent has no heads
        ("attention.kv_down", "attention.core", "kv_sequence", True, "M"),
        ("attention.kv_up", "attention.core", "batch", True, "R"),  # every query sees all keys
        ("attention.kv_up", "attention.core", "batch", False, "M"),
        ("attention.kv_down", "attention.kv_up", "N", True, "R"),
        ("attention.q_up", "attention.kv_up", "N", False, "N"),
        ("attention.core", "attention.kv_up", "N", False, "N"),
        ("attention.core", "attention.kv_up", "K", False, "N"),
        ("stream", "head", "vocabulary", False, "R"),
        ("stream", "head", "hidden", False, "N"),
    ],
)
def test_input_states(source: str, target: str, letter: str, prefill: bool, state: str) -> None:
    assert input_state(Edge(source, target, 1), letter, prefill) == state


@pytest.mark.parametrize(
    ("source", "letter", "prefill", "state"),
    [
        ("attention.out", "K", False, "P"),
        ("attention.core", "kv_sequence", False, "P"),
        ("attention.core", "kv_sequence", True, "M"),
        ("embed", "vocabulary", True, "P"),
        ("embed", "hidden", True, "N"),
        ("head", "hidden", True, "P"),
        ("head", "vocabulary", True, "N"),
    ],
)
def test_output_states(source: str, letter: str, prefill: bool, state: str) -> None:
    assert output_state(source, letter, prefill) == state


def test_edges_between_the_same_operators_are_joined() -> None:
    for model in MODELS:
        for block in model_blocks(model):
            groups = joined(block.edges)
            assert sorted(map(str, block.edges)) == sorted(str(edge) for group in groups for edge in group)
            plain = [frozenset((g[0].source, g[0].target)) for g in groups if g[0].role == "plain"]
            assert len(plain) == len(set(plain))


def test_gate_and_up_are_reduced_before_their_product() -> None:
    # Pope et al.: two reduce-scatters (gate and up), multiply, one all-gather.
    model = dense_model()
    cost = cost_model(setting(model), degrees(tp=8))
    ((prices, _),) = cost.tables.pricing.meshes()
    block = next(block for block in cost.tables.blocks if block.layer)
    edge = next(edge for edge in block.edges if (edge.source, edge.target) == ("ffn.up", "ffn.down"))
    up, down = cost.tables.pricing.operator(block, "ffn.up"), cost.tables.pricing.operator(block, "ffn.down")
    time = prices.conversion(edge, up, down)[0, up.letters.index("K"), down.letters.index("N"), 0]
    regimes, n = prices.mesh.regimes((0,)), np.array([[256 * 1024 * 2.0]])
    scatter, reduce = (
        seconds(regimes, kind, 2 * n)[0, 0] for kind in (Collective.REDUCE_SCATTER, Collective.ALL_REDUCE)
    )
    gather = seconds(regimes, Collective.ALL_GATHER, n)[0, 0]
    assert time == pytest.approx(min(scatter + gather, reduce))
    free = prices.conversion(edge, up, down)[0, up.letters.index("N"), down.letters.index("K")]
    assert not free.any()


def test_megatron_pays_two_all_reduces_a_layer() -> None:
    model = dense_model()
    cost = cost_model(setting(model), degrees(tp=8))
    ((prices, _),) = cost.tables.pricing.meshes()
    block = next(block for block in cost.tables.blocks if block.layer)
    reduce = seconds(prices.mesh.regimes((0,)), Collective.ALL_REDUCE, prices.activation(512).tokens[None] * 1024)[0]
    chosen = strategy(model, degrees(tp=8))
    total = np.zeros(reduce.shape)
    for edge in block.edges:
        source, target = cost.tables._ends(block, edge)
        i, j = (
            source.letters.index(chosen.sharding[source.key][1]),
            target.letters.index(chosen.sharding[target.key][1]),
        )
        total += prices.conversion(edge, source, target)[0, i, j]
    assert total == pytest.approx(2 * reduce)
