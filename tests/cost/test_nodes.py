from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_settings import cost_model, degrees, dense_model, moe_model, setting

from lts_bench.cost.edges import MeshPrices
from lts_bench.cost.graph import Block
from lts_bench.cost.kernels import gemm_rate
from lts_bench.cost.nodes import BUFFER, WEIGHTS, Setting, mean_weight_bytes
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.space.strategy import Degrees
from lts_bench.specs.config import model_from_config
from lts_bench.specs.formats import Precision
from lts_bench.specs.layers import Attention, DenseFfn, Layer, MoeFfn
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import FORMATS

WEIGHT = 2.0


class Priced:
    """The own time and memory of operators of the last layer on one mesh, by letters."""

    def __init__(self, place: Setting, d: Degrees) -> None:
        self.tables = cost_model(place, d).tables
        ((self.prices, _),) = self.tables.pricing.meshes()
        self.layers = [block for block in self.tables.blocks if block.layer]

    def _block(self, name: str) -> Block:
        if name in ("embed", "head"):
            return next(block for block in self.tables.blocks if block.name == name)
        return self.layers[-1]

    def node(self, name: str, letters: str) -> tuple[np.ndarray, np.ndarray]:
        prices: MeshPrices = self.prices
        block = self._block(name)
        operator = self.tables.pricing.operator(block, name, target=name in ("head", "stream"))
        time, memory = prices.node(block, operator)
        column = prices.view(operator).choices.index(tuple(letters.split(",")))
        return time[0, column], memory[0, column]

    def weights(self, name: str, letters: str) -> float:
        return float(self.node(name, letters)[1][WEIGHTS])


def test_local_shapes_of_a_product() -> None:
    model = dense_model()
    place = setting(model)
    priced = Priced(place, degrees(tp=4))
    rate = gemm_rate(place.cluster.chip, FORMATS["bf16"])
    tokens = place.phases.tokens
    # ffn.up is 512 x 2048 (gate and up); out of 512 heads' features.
    for letters, m, n, k in (("R", 1, 2048, 512), ("M", 4, 2048, 512), ("N", 1, 512, 512), ("K", 1, 2048, 128)):
        local = np.ceil(tokens / m)
        one = np.ones_like(local)
        expected = rate.seconds(local, n * one, k * one, n * k * 2.0 * one)
        assert priced.node("ffn.up", letters)[0] == pytest.approx(expected), letters
        assert priced.weights("ffn.up", letters) == n * k * WEIGHT


def test_two_axes_split_both_dimensions() -> None:
    priced = Priced(setting(dense_model()), degrees(tp=8, tx=2))
    assert priced.weights("ffn.up", "N,K") == 2048 / 2 * 512 / 4 * WEIGHT
    assert priced.weights("ffn.up", "N,N") == 2048 / 8 * 512 * WEIGHT
    assert priced.weights("ffn.up", "M,R") == 2048 * 512 * WEIGHT


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    # 8 query and 4 KV heads of 64: at 8 devices one query head and one whole key and value head each.
    priced = Priced(setting(dense_model()), degrees(tp=8))
    assert priced.weights("attention.qkv", "N") == 512 * (64 + 2 * 64) * WEIGHT
    assert priced.weights("attention.qkv", "R") == 512 * (8 + 2 * 4) * 64 * WEIGHT


def test_illegal_choices_cost_infinity() -> None:
    priced = Priced(setting(dense_model()), degrees(tp=16))
    assert np.isinf(priced.node("attention.qkv", "N")[0]).all()
    assert np.isfinite(priced.node("attention.qkv", "K")[0]).all()


def test_padding_heads_charges_the_waste() -> None:
    # 32 heads on 5 devices: 7 each, 35 in all; the 4 KV heads as one each.
    model = dense_model(heads=32, kv_heads=4)
    priced = Priced(setting(model, "h100x32", padding=True), degrees(tp=5))
    assert priced.weights("attention.qkv", "N") == 512 * (7 + 2) * 64 * WEIGHT
    assert priced.weights("attention.out", "K") == 7 * 64 * 512 * WEIGHT
    assert pytest.approx(0.094, abs=1e-3) == 5 * 7 / 32 - 1


def test_padding_a_shared_expert_to_whole_blocks() -> None:
    # 512 / 8 = 64 features, charged as 128, for gate and up alike.
    layer = Layer(Attention(8, 8, 128), MoeFfn(8, 2, 1024, shared_width=512), vectors=0)
    model = Model("blocks", 1024, 1000, (layer,), precision=Precision(FORMATS["fp8_block"]))
    rigid, padded = (Priced(setting(model, padding=pad), degrees(tp=8, ep=8)) for pad in (False, True))
    assert np.isinf(rigid.node("shared.up", "N")[0]).all()
    per_weight = mean_weight_bytes(FORMATS["fp8_block"])
    assert padded.weights("shared.up", "N") == pytest.approx(2 * 128 * 1024 * per_weight)
    assert padded.weights("shared.down", "K") == pytest.approx(128 * 1024 * per_weight)
    assert np.isfinite(padded.node("shared.up", "N")[0]).all()


def test_scales_have_their_share() -> None:
    assert mean_weight_bytes(FORMATS["bf16"]) == 2
    assert mean_weight_bytes(FORMATS["fp8_block"]) == 1 + 4 / 128**2
    assert mean_weight_bytes(FORMATS["fp4"]) == 0.5625


def test_head_works_on_the_last_token_alone() -> None:
    model = dense_model()
    one, two = (Priced(setting(model, workload=f"isl={isl},osl=128"), degrees()) for isl in (256, 4096))
    assert (
        one.node("head", "R")[0][PREFILL] == two.node("head", "R")[0][PREFILL] == one.node("head", "R")[0][FIRST_RUNG]
    )
    assert one.node("embed", "R")[0][PREFILL] < two.node("embed", "R")[0][PREFILL]


def test_logits_are_gathered_unless_tokens_are_split() -> None:
    priced = Priced(setting(dense_model(vocab=128_000)), degrees(tp=8))
    split, whole = priced.node("head", "M")[0], priced.node("head", "vocabulary")[0]
    operator_alone = Priced(setting(dense_model(vocab=16_000)), degrees()).node("head", "R")[0]
    assert (whole > operator_alone).all()
    alone = Priced(setting(dense_model(vocab=128_000)), degrees()).node("head", "R")[0]
    assert split[FIRST_RUNG] == pytest.approx(alone[FIRST_RUNG])


def test_vocabulary_is_padded_to_64_rows_a_device() -> None:
    priced = Priced(setting(dense_model()), degrees(tp=8))  # 1000 / 8 = 125 rows
    assert priced.weights("embed", "vocabulary") == 128 * 512 * WEIGHT
    assert priced.weights("embed", "hidden") == 1000 * 64 * WEIGHT
    assert priced.weights("embed", "M") == 1000 * 512 * WEIGHT


def test_an_embedding_buffers_no_vocabulary() -> None:
    memory = Priced(setting(dense_model()), degrees()).node("embed", "R")[1]
    assert memory[BUFFER] == 256 * 512 * 2
    assert Priced(setting(dense_model()), degrees(tp=4)).node("embed", "M")[1][BUFFER] == 64 * 512 * 2


def test_features_of_the_residual_pay_statistics_of_the_norm() -> None:
    priced = Priced(setting(dense_model()), degrees(tp=8))
    whole, features, tokens = (priced.node("stream", letter)[0] for letter in "RNM")
    assert (features > tokens).all()
    assert (tokens <= whole).all()


def test_norms_and_launches_are_shared_by_the_branches() -> None:
    model = moe_model()
    priced = Priced(setting(model, small_kernels_per_layer=6, small_kernels_per_moe_layer=4), degrees())
    assert priced.weights("stream", "R") == 1024 * 2 / 2
    bare = Priced(setting(model, small_kernels_per_layer=0, small_kernels_per_moe_layer=0), degrees())
    assert priced.node("stream", "R")[0] - bare.node("stream", "R")[0] == pytest.approx(10 / 2 * 2.2e-6)


def test_a_quantised_model_keeps_embedding_and_head_in_16_bit() -> None:
    config = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
              "intermediate_size": 1024, "vocab_size": 1000,
              "quantization_config": {"quant_method": "fp8"}}  # fmt: skip
    model = model_from_config(config, "small")
    priced = Priced(setting(model), degrees())
    assert priced.weights("ffn.up", "R") == 2048 * 512
    assert priced.weights("head", "R") == 1000 * 512 * 2


def test_ungated_layers_are_not_mistaken_for_gated_ones() -> None:
    layer = Layer(Attention(8, 8, 64), DenseFfn(192, gated=False), vectors=0)
    model = replace(Model("plain", 512, 1000, (layer,)), precision=Precision(FORMATS["fp8_block"]))
    priced = Priced(setting(model, padding=True), degrees(tp=2))
    assert priced.weights("ffn.up", "N") == pytest.approx(128 * 512 * mean_weight_bytes(FORMATS["fp8_block"]))
