"""Rows as measured tables have them, and where these lie."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data"
MODELS = DATA / "models"
measured_tables = pytest.mark.skipif(not DATA.is_dir(), reason="needs the measured tables beside the repository")

SERVED = {
    "engine": "vllm",
    "engine_version": "0.19.0",
    "config_name": "llama-3.1-8b",
    "system": "h100_sxm",
    "precision": "bf16",
    "isl_tokens": "1024",
    "osl_tokens": "128",
    "concurrency_total": "8.0",
    "gpus": "2",
    "tp": "2",
    "pp": "1",
    "attention_dp": "1",
    "moe_tp": "1",
    "moe_ep": "2",
    "ttft_not_scored": "False",
    "ttft_ms": "100",
    "tpot_ms": "6",
}
SATURATED = {
    "model": "LLaMA v3.1 8B",
    "accelerator": "H100 SXM 80GB",
    "n_acc": "2",
    "tp": "2",
    "pp": "",
    "ep": "",
    "dp": "",
    "precision": "FP8",
    "batch": "",
    "request_rate_qps": "",
    "isl": "1000",
    "osl": "1000",
    "out_tok_s": "20000",
    "software": "TensorRT-LLM 0.17",
}
BATCH = SATURATED | {
    "model": "GPT-20B",
    "accelerator": "A100-SXM 80GB (SuperPOD, 8x200Gb/s IB)",
    "precision": "FP16",
    "batch": "4",
    "isl": "60",
    "osl": "20",
    "software": "FasterTransformer",
}
STRANGE = (
    "",
    " ",
    "-1",
    "0",
    "nan",
    "inf",
    "1e9",
    "1e18",
    "1e300",
    "1e-300",
    "2.5",
    "7",
    "²",
    "a/b",
    "\x00",
    "9" * 400,
)
"""Cells that no column expects."""
