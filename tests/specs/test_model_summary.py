"""What the summary of a model tells."""

from __future__ import annotations

import json

import pytest

from lts_bench.specs.config import list_models, load_model
from lts_bench.specs.quantization import apply_precision
from lts_bench.specs.summary import model_summary


def test_deepseek_v3() -> None:
    summary = model_summary(load_model("deepseek-v3"))
    assert summary["parameters"] == {
        "total": 671_026_419_200,
        "active": 37_552_297_472,
        "embedding": 926_679_040,
        "draft": 11_610_068_224,
    }
    assert summary["kv_bytes_per_token"] == 70_272
    assert summary["state_bytes_per_sequence"] == 0
    assert summary["layers"] == {"dense": 3, "moe": 58}
    assert summary["precision"] == {
        "weights": "fp8",
        "activations": "fp8",
        "block": [128, 128],
        "exceptions": {"embed": "bf16", "head": "bf16", "router": "bf16"},
        "kv": "bf16",
    }


def test_cache_follows_its_own_dtype() -> None:
    model = apply_precision(load_model("llama-3.1-70b"), kv_precision="fp8")
    assert model_summary(model)["kv_bytes_per_token"] == 163_840


@pytest.mark.parametrize("name", list_models())
def test_every_summary_is_plain_data(name: str) -> None:
    summary = model_summary(load_model(name))
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["parameters"]["active"] <= summary["parameters"]["total"]
    assert sum(summary["layers"].values()) == len(load_model(name).layers)
