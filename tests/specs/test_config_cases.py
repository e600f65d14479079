"""Configs from public reports: counts, cache bytes and layers as worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lts_bench.specs.config import load_model, model_from_config
from lts_bench.specs.failure import InputError
from lts_bench.specs.layers import Attention, DenseFfn, LatentAttention, Layer, LinearMixer, MoeFfn
from lts_bench.specs.model import Model
from lts_bench.specs.summary import model_summary

SMALL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "first_k_dense_replace": 3,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
}


def read(config: dict[str, Any], **more: Any) -> Model:
    return model_from_config({**config, **more}, "case")


def attentions(model: Model) -> list[Attention]:
    return [layer.mixer for layer in model.layers if isinstance(layer.mixer, Attention)]


def experts(model: Model) -> MoeFfn:
    return next(layer.ffn for layer in model.layers if isinstance(layer.ffn, MoeFfn))


def moe_indices(model: Model) -> list[int]:
    return [i for i, layer in enumerate(model.layers) if isinstance(layer.ffn, MoeFfn)]


def test_heads_without_groups_are_multi_head() -> None:
    model = read(
        SMALL,
        hidden_size=6656,
        num_hidden_layers=60,
        num_attention_heads=52,
        intermediate_size=17920,
        vocab_size=32000,
    )
    assert attentions(model)[0].kv_heads == 52
    assert model.parameters.total == 32_528_943_616


def test_qwen2_has_biases_of_queries_keys_and_values() -> None:
    model = read(
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18944,
            "vocab_size": 152064,
        }
    )
    assert model.parameters.total == 7_615_616_512
    assert model.kv_bytes_per_token == 57_344


def test_grouped_queries_shrink_the_cache() -> None:
    model = read(
        SMALL,
        hidden_size=2048,
        num_hidden_layers=36,
        num_attention_heads=16,
        num_key_value_heads=2,
        head_dim=128,
        intermediate_size=11008,
    )
    assert model.kv_bytes_per_token == 36_864


def test_tied_embedding_counts_once() -> None:
    shape = {
        "hidden_size": 2048,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 8192,
        "vocab_size": 128256,
    }
    assert read(SMALL, **shape, tie_word_embeddings=True).parameters.total == 1_235_814_400
    assert read(SMALL, **shape).parameters.total == 1_235_814_400 + 2048 * 128256


@pytest.mark.parametrize(("tied", "total"), [(True, 494_032_768), (False, 630_167_424)])
def test_qwen2_half_billion(tied: bool, total: int) -> None:
    model = read(
        {
            "hidden_size": 896,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "intermediate_size": 4864,
            "vocab_size": 151936,
            "tie_word_embeddings": tied,
            "model_type": "qwen2",
        }
    )
    assert model.parameters.total == total
    assert model.parameters.embedding == 896 * 151936


@pytest.mark.parametrize(("family", "tied"), [("llama", False), ("gemma", True), ("gpt2", True), ("qwen3", False)])
def test_tying_falls_back_to_the_family(family: str, tied: bool) -> None:
    assert read(SMALL, model_type=family, max_position_embeddings=128).tied is tied


def test_explicit_head_dim_counts_before_hidden_over_heads() -> None:
    model = read(
        {
            "hidden_size": 2560,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_hidden_layers": 36,
            "intermediate_size": 9728,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
            "model_type": "qwen3",
        }
    )
    assert model.kv_bytes_per_token == 147_456
    assert model.parameters.total == 4_022_468_096


@pytest.mark.parametrize(("layers", "kv_bytes"), [(64, 262_144), (40, 163_840)])
def test_wide_heads_of_siblings(layers: int, kv_bytes: int) -> None:
    model = read(
        SMALL,
        hidden_size=5120,
        num_hidden_layers=layers,
        num_attention_heads=64 if layers == 64 else 32,
        num_key_value_heads=8,
        head_dim=128,
    )
    assert model.kv_bytes_per_token == kv_bytes


@pytest.mark.parametrize(("hidden", "heads", "width"), [(1792, 24, 3072), (6144, 64, 8192)])
def test_heads_wider_than_the_stream(hidden: int, heads: int, width: int) -> None:
    model = read(SMALL, hidden_size=hidden, num_attention_heads=heads, head_dim=128)
    assert model.layers[0].operators(hidden)["attention.out"].k == width


def test_heads_that_do_not_divide_are_refused_with_both_names() -> None:
    with pytest.raises(InputError, match=r"head_dim.*hidden_size=1792 and num_attention_heads=24"):
        read(SMALL, hidden_size=1792, num_attention_heads=24)


def test_null_head_dim_is_absent() -> None:
    assert attentions(read(SMALL, hidden_size=4096, num_attention_heads=32, head_dim=None))[0].head_dim == 128


TEXT = {
    "hidden_size": 5120,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 32768,
    "vocab_size": 131072,
}


@pytest.mark.parametrize(
    "config",
    [
        {"text_config": TEXT},
        {"llm_config": TEXT},
        {"language_config": TEXT},
        {"thinker_config": {"text_config": TEXT}},
    ],
)
def test_nested_language_models(config: dict[str, Any]) -> None:
    model = read({"model_type": "mistral3", "vision_config": {"num_attention_heads": 16}, **config})
    assert (model.hidden, len(model.layers), attentions(model)[0].heads) == (5120, 40, 32)
    assert any("vision tower" in warning for warning in model.warnings)


def test_unknown_nesting_lists_the_keys_tried() -> None:
    with pytest.raises(InputError, match=r"hidden_size.*text_config.*thinker_config\.text_config"):
        read({"model_type": "mistral3", "inner_model": TEXT})


def test_vision_tower_is_extra() -> None:
    vision = {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096, "patch_size": 14}
    plain = read({"text_config": TEXT})
    seeing = read({"text_config": TEXT, "vision_config": vision})
    assert seeing.extra_parameters == 24 * 12 * 1024 * 1024 + 3 * 14 * 14 * 1024
    assert seeing.parameters.total - plain.parameters.total == seeing.extra_parameters


def test_nested_experts_are_seen() -> None:
    text = {**TEXT, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512}
    model = read({"text_config": text})
    assert model.is_moe
    assert experts(model).experts == 256


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        ({"num_experts": 128, "num_experts_per_tok": 2}, 128),
        ({"n_routed_experts": 256, "moe_topk": 2}, 256),
        ({"num_local_experts": 8, "moe_k": 2}, 8),
        ({"moe_num_experts": 16, "num_experts_per_tok": 2}, 16),
        ({"num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2}, 896),
    ],
)
def test_names_of_experts(keys: dict[str, int], number: int) -> None:
    ffn = experts(read(SMALL, **keys, moe_intermediate_size=128))
    assert ffn.experts == number
    assert ffn.top_k == (16 if number == 896 else 2)
    assert ffn.shared_width == 128 * keys.get("num_shared_experts", 0)


@pytest.mark.parametrize("key", ["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"])
def test_experts_without_top_k_are_refused(key: str) -> None:
    with pytest.raises(InputError, match="num_experts_per_tok: is missing for 16 experts"):
        read(SMALL, **{key: 16})


def test_experts_in_no_layer_are_refused() -> None:
    with pytest.raises(InputError, match="names experts but no layer has them"):
        read(SMALL, num_experts=16, num_experts_per_tok=2, first_k_dense_replace=6)


def test_unknown_expert_counts_are_refused() -> None:
    with pytest.raises(InputError, match="num_fancy_experts"):
        read(SMALL, num_fancy_experts=16)


LLAMA4 = {
    "num_hidden_layers": 48,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
    "vocab_size": 202048,
}


@pytest.mark.parametrize(
    ("step", "number", "moe", "total"), [(1, 16, 48, 107_769_861_120), (2, 128, 24, 400_711_848_960)]
)
def test_llama4_interleaves_experts(step: int, number: int, moe: int, total: int) -> None:
    text = {**LLAMA4, "interleave_moe_layer_step": step, "num_local_experts": number}
    model = read({"text_config": text})
    assert len(moe_indices(model)) == moe
    assert model.parameters.total == total
    assert experts(model).shared_width == 8192
    assert {layer.ffn.width for layer in model.layers if isinstance(layer.ffn, DenseFfn)} <= {16384}


@pytest.mark.parametrize(
    ("keys", "indices"),
    [
        ({"num_hidden_layers": 27, "first_k_dense_replace": 1, "moe_layer_freq": 1}, list(range(1, 27))),
        ({"num_hidden_layers": 4, "moe_layer_freq": [0, 1, 1, 1]}, [1, 2, 3]),
        ({"num_hidden_layers": 4, "moe_layer_freq": 2, "first_k_dense_replace": 1}, [2]),
        ({"decoder_sparse_step": 2, "mlp_only_layers": None}, [1, 3, 5]),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [3]}, [1, 5]),
        ({"decoder_sparse_step": 1}, [0, 1, 2, 3, 4, 5]),
        ({"decoder_sparse_step": 0}, [0, 1, 2, 3, 4, 5]),
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, [1, 3, 5]),
    ],
)
def test_which_layers_have_experts(keys: dict[str, Any], indices: list[int]) -> None:
    model = read(SMALL, num_experts=60, num_experts_per_tok=4, moe_intermediate_size=128, **keys)
    assert moe_indices(model) == indices


def test_per_layer_list_of_wrong_length_is_refused() -> None:
    with pytest.raises(InputError, match=r"moe_layer_freq: has 3 entries for 6 layers"):
        read(SMALL, num_experts=4, num_experts_per_tok=2, moe_layer_freq=[0, 1, 1])


def test_qwen2_moe_counts_its_shared_gate() -> None:
    model = read(
        {
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "vocab_size": 151936,
            "tie_word_embeddings": False,
            "model_type": "qwen2_moe",
        }
    )
    assert model.parameters.total == 14_315_784_192


def test_shared_experts_by_number() -> None:
    model = read(SMALL, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=1408, n_shared_experts=2)
    assert experts(model).shared_width == 2816


def test_mixtral_total_active_and_cache() -> None:
    model = load_model("mixtral-8x7b")
    assert model.parameters.total == 46_702_792_704
    assert model.parameters.active == 12_879_925_248
    assert model.parameters.embedding == 131_072_000
    assert model.kv_bytes_per_token == 131_072


def test_latent_cache() -> None:
    model = read(LATENT)
    assert model.kv_bytes_per_token == 70_272
    assert read(LATENT, num_key_value_heads=1).kv_bytes_per_token == 70_272


def test_latent_cache_in_fp8_is_half() -> None:
    quantised = read(LATENT, quantization_config={"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})
    assert quantised.kv_bytes_per_token == 35_136


def test_latent_attention_ignores_head_dim() -> None:
    model = read(
        LATENT,
        model_type="glm4_moe_lite",
        hidden_size=2048,
        num_hidden_layers=47,
        num_attention_heads=20,
        num_key_value_heads=20,
        head_dim=64,
        q_lora_rank=768,
        qk_nope_head_dim=192,
        v_head_dim=256,
        first_k_dense_replace=1,
    )
    mixer = model.layers[0].mixer
    assert isinstance(mixer, LatentAttention)
    assert (mixer.nope_dim + mixer.rope_dim, mixer.value_dim) == (256, 256)
    assert model.layers[0].operators(2048)["attention.out"].k == 5120
    assert model.kv_bytes_per_token == 54_144


def test_deepseek_v3_with_and_without_draft_layer() -> None:
    model = read(LATENT, num_nextn_predict_layers=1)
    assert model.parameters.total == 671_026_419_200
    assert model.draft_parameters == 11_610_068_224
    assert model.parameters.total + model.draft_parameters == 682_636_487_424
    assert model.parameters == read(LATENT).parameters


def test_deepseek_v3_attention_weights() -> None:
    layer = read(LATENT).layers[0]
    weights = sum(m.k * m.n + m.vectors for name, m in layer.operators(7168).items() if "attention" in name)
    assert weights * 61 == 11_413_547_008


def test_deepseek_v2_lite() -> None:
    model = read(
        LATENT,
        model_type="deepseek_v2",
        hidden_size=2048,
        num_hidden_layers=27,
        num_attention_heads=16,
        q_lora_rank=None,
        intermediate_size=10944,
        vocab_size=102400,
        first_k_dense_replace=1,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6,
        moe_intermediate_size=1408,
    )
    assert model.parameters.total == 15_706_484_224
    assert model.kinds == {"dense": 1, "moe": 26}


BLOCKS = {
    "model_type": "nemotron-nas",
    "hidden_size": 8192,
    "num_hidden_layers": 3,
    "num_attention_heads": 64,
    "num_key_value_heads": None,
    "intermediate_size": None,
    "vocab_size": 128256,
    "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 2.625, "no_op": False}},
        {"attention": {"n_heads_in_group": 16, "no_op": False}, "ffn": {"ffn_mult": None, "no_op": True}},
    ],
}


def test_searched_blocks() -> None:
    model = read(BLOCKS)
    assert [layer.mixer.kv_heads if isinstance(layer.mixer, Attention) else 0 for layer in model.layers] == [8, 0, 4]
    assert [layer.ffn.width if layer.ffn else 0 for layer in model.layers] == [28672, 14336, 0]
    assert [layer.parameters(8192) for layer in model.layers] == [855_654_400, 352_329_728, 142_614_528]
    assert model.kv_bytes_per_token == 6_144
    assert model.parameters.total == 3_451_953_152
    assert model.kinds == {"dense": 1, "none_dense": 1, "attention": 1}


def test_linear_replacement_of_a_block_is_refused() -> None:
    block = {"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 1.0}}
    with pytest.raises(InputError, match=r"block_configs\[0\]\.attention\.replace_with_linear"):
        read({**BLOCKS, "block_configs": [block]})


CHATGLM = {
    "num_layers": 28,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "kv_channels": 128,
    "ffn_hidden_size": 13696,
    "padded_vocab_size": 65024,
    "seq_length": 8192,
}


def test_chatglm_names() -> None:
    model = read(CHATGLM)
    assert model.kv_bytes_per_token == 28_672
    assert model.max_context == 8192
    assert model.parameters.total == 6_243_584_000


def test_multi_query_switched_off() -> None:
    assert attentions(read(CHATGLM, multi_query_attention=False))[0].kv_heads == 32


@pytest.mark.parametrize(
    ("flags", "kv_heads"),
    [({"multi_query": True}, 1), ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 8}, 8)],
)
def test_falcon_generations(flags: dict[str, Any], kv_heads: int) -> None:
    assert attentions(read(SMALL, model_type="falcon", **flags))[0].kv_heads == kv_heads


WINDOW = {**SMALL, "num_hidden_layers": 8, "sliding_window": 128}


@pytest.mark.parametrize(
    ("keys", "windowed"),
    [
        ({"model_type": "mistral"}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"model_type": "mistral", "sliding_window": -1}, []),
        ({"model_type": "mistral", "sliding_window": 0}, []),
        ({"model_type": "mistral", "sliding_window": None}, []),
        ({"model_type": "qwen2"}, []),
        ({"model_type": "qwen2", "use_sliding_window": False, "max_window_layers": 6}, []),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 6}, [6, 7]),
        ({"model_type": "gemma2"}, [0, 2, 4, 6]),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 4}, [0, 1, 2, 4, 5, 6]),
        ({"sliding_window_pattern": "LLG"}, [0, 1, 3, 4, 6, 7]),
        ({"layer_types": ["sliding_attention", "full_attention"] * 4}, [0, 2, 4, 6]),
        ({"model_type": "llama4_text", "sliding_window": None, "attention_chunk_size": 64}, [0, 1, 2, 4, 5, 6]),
    ],
)
def test_windows(keys: dict[str, Any], windowed: list[int]) -> None:
    found = attentions(read(WINDOW, **keys))
    assert [i for i, each in enumerate(found) if each.window is not None] == windowed


def test_gpt_oss_caches_as_much_in_every_layer() -> None:
    model = load_model("gpt-oss-20b")
    assert {2 * layer.mixer.kv_elements for layer in model.layers if layer.mixer} == {2_048}
    assert model.kv_bytes_per_token == 49_152
    assert [each.window for each in attentions(model)[:2]] == [128, None]


def test_layer_types_of_wrong_length() -> None:
    with pytest.raises(InputError, match=r"layer_types: has 3 entries for 4 layers"):
        read(SMALL, num_hidden_layers=4, layer_types=["full_attention"] * 3)


def test_unknown_layer_type() -> None:
    with pytest.raises(InputError, match=r"layer_types.*'conv'.*full_attention"):
        read(SMALL, layer_types=["conv"] * 6)


def test_shared_caches_are_not_held_twice() -> None:
    model = read(SMALL, num_hidden_layers=35, num_kv_shared_layers=15)
    assert sum(bool(layer.mixer and layer.mixer.kv_elements) for layer in model.layers) == 20


def test_unknown_sharing_keys_warn() -> None:
    assert any("KV may be overestimated" in each for each in read(SMALL, cla_share_factor=2).warnings)


NEMOTRON_H = {
    "hidden_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 1856,
    "vocab_size": 131072,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
}


@pytest.mark.parametrize(
    ("pattern", "kv_bytes"), [("MEM*EMEM*E", 2_048), ("MEMEM*" + "EMEMEM*" * 4 + "EMEMEMEM*" + "EMEMEMEME", 6_144)]
)
def test_hybrid_patterns(pattern: str, kv_bytes: int) -> None:
    model = read(NEMOTRON_H, hybrid_override_pattern=pattern, num_hidden_layers=len(pattern))
    assert model.kv_bytes_per_token == kv_bytes
    assert model.kinds == {"linear": pattern.count("M"), "moe": pattern.count("E"), "attention": pattern.count("*")}


def test_hybrid_pattern_is_as_long_as_the_model() -> None:
    with pytest.raises(InputError, match="has 10 entries for 12 layers"):
        read(NEMOTRON_H, hybrid_override_pattern="MEM*EMEM*E", num_hidden_layers=12)


def test_unknown_letter_of_a_hybrid_pattern() -> None:
    with pytest.raises(InputError, match=r"hybrid_override_pattern.*'X'"):
        read(NEMOTRON_H, hybrid_override_pattern="MEXE", num_hidden_layers=4)


def test_linear_layers_hold_state_not_cache() -> None:
    model = load_model("qwen3-next-80b-a3b")
    summary = model_summary(model)
    assert summary["layers"] == {"linear_moe": 36, "attention_moe": 12}
    assert summary["kv_bytes_per_token"] == 24_576
    assert summary["state_bytes_per_sequence"] == 39_518_208


def test_recurrent_state_in_fp32() -> None:
    shape = {
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "full_attention_interval": 4,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "intermediate_size": 5120,
        "vocab_size": 1000,
    }
    assert read(shape).state_bytes_per_sequence == 39_518_208
    assert read(shape, mamba_ssm_dtype="float32").state_bytes_per_sequence == 77_266_944


def test_linear_mixers_split_into_whole_heads() -> None:
    for layer in load_model("qwen3-next-80b-a3b").layers:
        if isinstance(layer.mixer, LinearMixer):
            matrices = layer.mixer.operators(2048)
            assert matrices["attention.qkv"].n == matrices["attention.qkv"].unit_n * layer.mixer.heads
            assert matrices["attention.out"].k == matrices["attention.out"].unit_k * layer.mixer.heads


def test_layers_without_experts_have_no_idle_parameters() -> None:
    model = read(SMALL)
    assert model.parameters.total == model.parameters.active
    assert model.layers[0] == Layer(attentions(model)[0], DenseFfn(2048), vectors=2 * 1024)


def test_gemma_leaves_sizes_to_its_library() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "intermediate_size": 10240}
    model = read({"text_config": text})
    assert attentions(model)[0] == Attention(8, 4, 256, vectors=512)
    assert model.vocab == 262_208
    assert "no vocab_size: the family's 262208 is assumed" in model.warnings
    assert model.parameters.total == 3_880_263_168
