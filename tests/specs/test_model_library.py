"""Published models: totals within 1 %, and the shapes behind them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from lts_bench.specs.config import list_models, load_model
from lts_bench.specs.layers import Attention, DenseFfn, LatentAttention, LinearMixer, MoeFfn
from lts_bench.specs.model import Model

MODELS = Path(__file__).parents[3] / "shared" / "data" / "models"
pytestmark = pytest.mark.filterwarnings("error")
needs_data = pytest.mark.skipif(not MODELS.is_dir(), reason="no published configs beside the project")


def published() -> list[tuple[str, float]]:
    table = MODELS / "published_params.csv"
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as lines:
        return [(row["model"], float(row["published_total_billions"] or 0)) for row in csv.DictReader(lines)]


@needs_data
def test_all_published_configs_load_and_all_totals_agree() -> None:
    rows = published()
    assert len(rows) == 46
    wrong = {}
    for name, billions in rows:
        total = load_model(str(MODELS / f"{name}.json")).parameters.total / 1e9
        if billions and abs(total / billions - 1) > 0.01:
            wrong[name] = (total, billions)
    assert wrong == {}


EXACT = {
    "BLOOM-176B": 176_247_271_424,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V3": 671_026_419_200,
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-4-Scout-17B-16E": 107_769_861_120,
    "Mistral-7B": 7_241_732_096,
    "Mixtral-8x7B": 46_702_792_704,
    "Mixtral-8x22B": 140_620_634_112,
    "Phi-4": 14_659_507_200,
    "Qwen2-0.5B": 494_032_768,
    "Qwen2.5-3B": 3_085_938_688,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-235B-A22B": 235_093_634_560,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
}
"""Parameters in the published weights."""


@needs_data
@pytest.mark.parametrize(("name", "total"), EXACT.items())
def test_totals_of_published_weights(name: str, total: int) -> None:
    assert load_model(str(MODELS / f"{name}.json")).parameters.total == total


def attention_shape(model: Model) -> set[tuple[int, int, int]]:
    mixers = (layer.mixer for layer in model.layers)
    return {(each.heads, each.kv_heads, each.head_dim) for each in mixers if isinstance(each, Attention)}


def moe_shape(model: Model) -> set[tuple[int, int, int, int]]:
    blocks = (layer.ffn for layer in model.layers)
    return {(each.experts, each.top_k, each.width, each.shared_width) for each in blocks if isinstance(each, MoeFfn)}


SHAPES = [
    ("Arctic-480B", (56, 8, 128), {"moe": 35}, 143_360),
    ("BLOOM-176B", (112, 112, 128), {"dense": 70}, 4_014_080),
    ("DBRX", (48, 8, 128), {"moe": 40}, 163_840),
    ("Falcon-180B", (232, 8, 64), {"dense": 80}, 163_840),
    ("GLM-4.5", (96, 8, 128), {"dense": 3, "moe": 89}, 376_832),
    ("GLaM-64B-64E", (128, 128, 128), {"dense": 32, "moe": 32}, 4_194_304),
    ("GPT-3-175B", (96, 96, 128), {"dense": 96}, 4_718_592),
    ("Gemma-3-27B", (32, 16, 128), {"dense": 62}, 507_904),
    ("Grok-1", (48, 8, 128), {"moe": 64}, 262_144),
    ("Jamba-1.5-Large", (64, 8, 128), {"linear_dense": 27, "linear_moe": 36, "attention_dense": 9}, 36_864),
    ("Llama-4-Scout-17B-16E", (40, 8, 128), {"moe": 48}, 196_608),
    ("MT-NLG-530B", (128, 128, 160), {"dense": 105}, 8_601_600),
    ("MiniMax-M1", (64, 8, 128), {"linear_moe": 70, "attention_moe": 10}, 40_960),
    ("MiniMax-M2.5", (48, 8, 128), {"moe": 62}, 253_952),
    ("Nemotron-H-56B", (64, 8, 128), {"linear": 54, "dense": 54, "attention": 10}, 40_960),
    ("OPT-175B", (96, 96, 128), {"dense": 96}, 4_718_592),
    ("PaLM-540B", (48, 1, 256), {"dense": 118}, 120_832),
    ("Phi-4", (40, 10, 128), {"dense": 40}, 204_800),
    ("Qwen3-Next-80B-A3B", (16, 2, 256), {"linear_moe": 36, "attention_moe": 12}, 24_576),
    ("Switch-C-2048", (32, 32, 64), {"moe": 30, "attention": 15}, 368_640),
    ("gpt-oss-120b", (64, 8, 64), {"moe": 36}, 73_728),
]


@needs_data
@pytest.mark.parametrize(("name", "heads", "kinds", "kv_bytes"), SHAPES)
def test_shapes(name: str, heads: tuple[int, int, int], kinds: dict[str, int], kv_bytes: int) -> None:
    model = load_model(str(MODELS / f"{name}.json"))
    assert attention_shape(model) == {heads}
    assert model.kinds == kinds
    assert model.kv_bytes_per_token == kv_bytes


@needs_data
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Arctic-480B", (128, 2, 4864, 7168)),
        ("DBRX", (16, 4, 10752, 0)),
        ("GLM-4.5", (160, 8, 1536, 1536)),
        ("GLaM-64B-64E", (64, 2, 32768, 0)),
        ("Jamba-1.5-Large", (16, 2, 24576, 0)),
        ("Kimi-K2", (384, 8, 2048, 2048)),
        ("LongCat-Flash", (512, 12, 2048, 0)),
        ("MiniMax-M2.5", (256, 8, 1536, 0)),
        ("Qwen3-Next-80B-A3B", (512, 10, 512, 512)),
        ("Switch-C-2048", (2048, 1, 6144, 0)),
        ("DeepSeek-V2-Lite", (64, 6, 1408, 2816)),
    ],
)
def test_shapes_of_experts(name: str, shape: tuple[int, int, int, int]) -> None:
    assert moe_shape(load_model(str(MODELS / f"{name}.json"))) == {shape}


@needs_data
def test_longcat_layers_are_flattened() -> None:
    model = load_model(str(MODELS / "LongCat-Flash.json"))
    assert model.kinds == {"dense": 56, "moe": 28}
    assert sum(isinstance(layer.mixer, LatentAttention) for layer in model.layers) == 56
    block = next(layer.ffn for layer in model.layers if isinstance(layer.ffn, MoeFfn))
    assert (block.idle_experts, block.mean_top_k) == (256, 8)
    assert model.parameters.active == pytest.approx(27e9, rel=0.05)


@needs_data
def test_jamba_counts_its_inner_projections() -> None:
    model = load_model(str(MODELS / "Jamba-1.5-Large.json"))
    mixer = next(layer.mixer for layer in model.layers if isinstance(layer.mixer, LinearMixer))
    inner = 16384
    matrices = inner * 8192 * 3 + inner * (512 + 2 * 16) + 512 * inner
    vectors = inner * 4 + inner + inner + inner * 16 + inner + 512 + 2 * 16
    held = sum(each.k * each.n + each.vectors for each in mixer.operators(8192).values())
    assert held == matrices + vectors
    assert mixer.state_elements == inner * 16 + inner * 3


@needs_data
def test_gemma_sees_the_whole_prompt_in_every_sixth_layer() -> None:
    model = load_model(str(MODELS / "Gemma-3-27B.json"))
    windows = Counter(layer.mixer.window for layer in model.layers if isinstance(layer.mixer, Attention))
    assert windows == {1024: 52, None: 10}


@needs_data
@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("deepseek-v3", "DeepSeek-V3"),
        ("deepseek-r1", "DeepSeek-R1"),
        ("falcon-180b", "Falcon-180B"),
        ("gpt-3-175b", "GPT-3-175B"),
        ("gpt-oss-20b", "gpt-oss-20b"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("kimi-k2", "Kimi-K2"),
        ("llama-2-7b", "Llama-2-7B"),
        ("llama-2-70b", "Llama-2-70B"),
        ("llama-3.1-8b", "Llama-3.1-8B"),
        ("llama-3.1-70b", "Llama-3.1-70B"),
        ("llama-3.1-405b", "Llama-3.1-405B"),
        ("minimax-m2.5", "MiniMax-M2.5"),
        ("mistral-7b", "Mistral-7B"),
        ("mixtral-8x7b", "Mixtral-8x7B"),
        ("mixtral-8x22b", "Mixtral-8x22B"),
        ("palm-540b", "PaLM-540B"),
        ("qwen2.5-72b", "Qwen2.5-72B"),
        ("qwen3-8b", "Qwen3-8B"),
        ("qwen3-32b", "Qwen3-32B"),
        ("qwen3-30b-a3b", "Qwen3-30B-A3B"),
        ("qwen3-235b-a22b", "Qwen3-235B-A22B"),
        ("qwen3-next-80b-a3b", "Qwen3-Next-80B-A3B"),
        ("switch-c-1.6t", "Switch-C-2048"),
    ],
)
def test_built_in_models_have_the_published_layers(name: str, stem: str) -> None:
    own, other = load_model(name), load_model(str(MODELS / f"{stem}.json"))
    assert own.layers == other.layers
    assert own.parameters == other.parameters
    assert own.precision.default.block == other.precision.default.block


BUILT_IN = {
    "gpt-20b": 20_262_014_976,
    "gpt-j-6b": 6_050_882_784,
    "llama-2-13b": 13_015_864_320,
    "llama-4-maverick": 400_711_848_960,
    "mt-nlg-530b": 529_600_819_200,
    "moe-1.6t": 1_606_748_572_800,
}


@pytest.mark.parametrize(("name", "total"), BUILT_IN.items())
def test_totals_of_built_in_models(name: str, total: int) -> None:
    assert load_model(name).parameters.total == total


@pytest.mark.parametrize("name", list_models())
def test_built_in_models_are_complete(name: str) -> None:
    model = load_model(name)
    assert model.max_context or name == "switch-c-1.6t"
    assert all(each.width > 0 for layer in model.layers if isinstance(each := layer.ffn, DenseFfn | MoeFfn))
    assert not any("assumed" in warning or "read like" in warning for warning in model.warnings)
    assert hash(model) == hash(load_model(name))
