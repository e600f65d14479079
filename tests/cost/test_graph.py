from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tiny_settings import cost_model, degrees, dense_model, latent_model, moe_model, setting, strategy

from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.edges import MeshPrices
from lts_bench.cost.graph import Edge, block_counts, joined, layer_block, model_blocks
from lts_bench.cost.phases import PREFILL
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
    edges = layer_block(latent_model(), latent_model().layers[0]).edges
    widths = Counter((e.source, e.target, e.when, e.features) for e in edges if e.when != "always")
    down, q_up, up, core = (f"attention.{name}" for name in ("kv_down", "q_up", "kv_up", "core"))
    assert widths == Counter(
        [
            (q_up, core, "prefill", 8 * (16 + 8)),
            (down, up, "prefill", 40),
            (up, core, "prefill", 8 * (16 + 16)),
            (up, core, "prefill", 40),
            (core, "attention.out", "prefill", 8 * 16),
            (q_up, up, "decode", 8 * (16 + 8)),
            (up, core, "decode", 8 * 40),
            (down, core, "decode", 40),
            (core, up, "decode", 8 * 32),
            (up, "attention.out", "decode", 8 * 16),
        ]
    )


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


def converting(model: Model, **letters: str) -> tuple[MeshPrices, np.ndarray]:
    """(phases,) time of all conversions of a layer's plain edges on 8 devices, Megatron's pattern with changes."""
    cost, chosen = cost_model(setting(model), degrees(tp=8)), strategy(model, degrees(tp=8), **letters)
    ((prices, _),) = cost.tables.pricing.meshes()
    block = next(block for block in cost.tables.blocks if block.layer)
    total = np.zeros(len(prices.setting.phases))
    for edge in block.edges:
        if edge.role == "plain":
            source, target = cost.tables._ends(block, edge)
            i, j = (end.letters.index(chosen.sharding[end.key][1]) for end in (source, target))
            total += prices.conversion(edge, source, target)[0, i, j]
    return prices, total


def moved(prices: MeshPrices, kind: Collective, features: int) -> np.ndarray:
    """(phases,) time of one collective of an activation."""
    n = prices.activation(features).tokens[None] * features * 2.0
    return seconds(prices.mesh.regimes((0,)), kind, n)[0]


def test_megatron_pays_two_all_reduces_a_layer() -> None:
    prices, total = converting(dense_model())
    assert total == pytest.approx(2 * moved(prices, Collective.ALL_REDUCE, 512))


def test_latents_of_a_prompt_are_gathered_or_reduced_once() -> None:
    prices, whole = converting(latent_model())
    for letter, kind in (("M", Collective.ALL_GATHER), ("K", Collective.ALL_REDUCE)):
        _, split = converting(latent_model(), attention__kv_down=letter)
        assert (split - whole)[PREFILL] == pytest.approx(moved(prices, kind, 40)[PREFILL])
