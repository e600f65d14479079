from __future__ import annotations

from pathlib import Path

import pytest
from measured_rows import MODELS, measured_tables

from lts_bench.validate.measured import count, measured_cluster, measured_engine, measured_model
from lts_bench.validate.table import SkipError

NONE = Path("nowhere")


def test_counts() -> None:
    assert count({"tp": " 8.0 "}, "tp") == 8
    assert count({"pp": ""}, "pp", 1) == count({}, "pp", 1) == 1
    for cell, told in (
        ("2.5", "tp must be a whole number, not '2.5'"),
        ("", "tp is missing"),
        ("0", "tp must be a pos"),
    ):
        with pytest.raises(SkipError, match=told):
            count({"tp": cell}, "tp")
    with pytest.raises(SkipError, match="must be a positive number"):
        count({"pp": "x"}, "pp", 1)


@pytest.mark.parametrize(
    ("system", "devices", "chip"),
    [("h100_sxm", 8, "h100"), ("H200 SXM 141GB", 4, "h200"), ("L40S 48GB", 2, "l40s"), ("GH200 96GB", 1, "gh200")],
)
def test_systems(system: str, devices: int, chip: str) -> None:
    cluster = measured_cluster(system, devices)
    assert cluster.chip.name == chip and cluster.devices == devices


@pytest.mark.parametrize(
    ("system", "devices", "told"),
    [("abacus", 8, "unknown system 'abacus'"), ("h100_sxm", 12, "fill whole domains"), ("h100_sxm", 10**12, "unknown")],
)
def test_systems_that_are_none(system: str, devices: int, told: str) -> None:
    with pytest.raises(SkipError, match=told):
        measured_cluster(system, devices)


@pytest.mark.parametrize(
    ("software", "engine"),
    [
        ("vllm", "vllm"),
        ("vLLM 0.4.3+rocm614, PyTorch 2.3.0", "vllm"),
        ("TensorRT-LLM 0.17", "trtllm-cpp"),
        ("TensorRT-LLM 1.2.0", "trtllm"),
        ("trtllm", "trtllm"),
        ("FasterTransformer", "fastertransformer"),
    ],
)
def test_engines(software: str, engine: str) -> None:
    assert measured_engine(software).name == engine


def test_engines_that_are_none() -> None:
    for software in ("", "llama.cpp"):
        with pytest.raises(SkipError, match="unknown engine"):
            measured_engine(software)


@pytest.mark.parametrize(
    ("name", "model"),
    [("LLaMA v3.1 70B", "llama-3.1-70b"), ("Mixtral 8x7B", "mixtral-8x7b"), ("GPT-20B", "gpt-20b"),
     ("llama2-70b-99.9", "llama-2-70b"), ("Llama-3.1-8B", "llama-3.1-8b")],
)  # fmt: skip
def test_models_by_many_names(name: str, model: str) -> None:
    assert measured_model(name, "bf16", NONE).name == model


def test_precisions() -> None:
    assert measured_model("llama-3.1-8b", "FP16", NONE).precision.default.dtype == "bf16"
    fp8 = measured_model("llama-3.1-8b", "fp8", NONE, "fp8").precision
    assert (fp8.default.dtype, fp8.default.activation, fp8.kv) == ("fp8", "fp8", "fp8")
    # A config that has the width already stays: MXFP4 experts, the rest in 16 bit.
    own = measured_model("gpt-oss-120b", "fp4", NONE)
    assert own == measured_model("gpt-oss-120b", "mxfp4", NONE)
    for name, precision, told in (("llama-3.1-8b", "fp7", "unknown precision"), ("", "fp8", "unknown model"),
                                  ("nothing", "fp8", "unknown model 'nothing'")):  # fmt: skip
        with pytest.raises(SkipError, match=told):
            measured_model(name, precision, NONE)


@measured_tables
def test_a_config_of_the_folder_comes_first() -> None:
    assert measured_model("Llama-3.1-8B", "bf16", MODELS).name == "Llama-3.1-8B"


def test_a_bad_config_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(SkipError, match=r"mine\.json"):
        measured_model("mine", "bf16", tmp_path)
    with pytest.raises(SkipError, match="unknown model"):
        measured_model("x" * 400, "bf16", tmp_path)
