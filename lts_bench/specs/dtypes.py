"""The dtype that a config stores its weights in."""

from __future__ import annotations

from lts_bench.specs.fields import Fields

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}


def base_dtype(fields: Fields) -> str:
    """The config's own dtype; bf16 with a warning where it has none."""
    key, value = fields.find("dtype")
    if value is None:
        fields.warn("no dtype: bf16 is assumed")
        return "bf16"
    word = str(value).removeprefix("torch.")
    if word not in DTYPES:
        fields.fail("is not a dtype", key, value, sorted(DTYPES))
    return DTYPES[word]
