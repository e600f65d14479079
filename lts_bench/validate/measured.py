"""Models, clusters, engines and precisions that the rows of measured tables name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import list_models, load_model
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import FORMATS, apply_precision
from lts_bench.validate.aliases import aliases, words
from lts_bench.validate.table import Row, SkipError, number

PRECISIONS: Mapping[str, str] = {"fp16": "bf16", "nvfp4": "fp4", "mxfp4": "fp4", "int4_wo": "int4", "w4a16": "int4"}
"""Precisions under other names."""


def count(row: Row, column: str, default: int | None = None) -> int:
    """A whole number of a row, 1 or more.

    Raises:
        SkipError: it is missing without a default, or something else.
    """
    if default is not None and not row.get(column, "").strip():
        return default
    value = number(row, column)
    if value != int(value):
        raise SkipError(f"{column} must be a whole number, not {row[column]!r}")
    return int(value)


@lru_cache(maxsize=256)
def measured_cluster(system: str, devices: int) -> Cluster:
    """So many devices of a system such as ``h100_sxm`` or ``H100 SXM 80GB``.

    Raises:
        SkipError: if there is no such system, or none of that size.
    """
    family = aliases().systems.get(words(system))
    if family is None:
        raise SkipError(f"unknown system {system.strip()!r}")
    try:
        return load_cluster(f"{family}-{devices}")
    except InputError as error:
        raise SkipError(str(error)) from error


def measured_engine(software: str) -> Engine:
    """An engine by the name of its software, its version or not.

    Raises:
        SkipError: if there is no such engine.
    """
    name = words(software)
    for beginning, profile in aliases().engines.items():
        if name.startswith(beginning):
            return load_engine(profile)
    raise SkipError(f"unknown engine {software!r}")


@lru_cache(maxsize=256)
def measured_model(name: str, precision: str, models: Path, kv_precision: str = "config") -> Model:
    """A model by its config in the folder ``models``, or a built-in one by any of its names.

    A config that is quantised to the named width stays as it is: ``fp4`` leaves MXFP4 experts alone.

    Raises:
        SkipError: if the model or the precision is unknown.
    """
    wanted = precision.lower().replace("-", "_")
    wanted = PRECISIONS.get(wanted, wanted)
    if wanted not in FORMATS:
        raise SkipError(f"unknown precision {precision!r}")
    try:
        model = load_model(_reference(name, models))
    except InputError as error:
        raise SkipError(str(error)) from error
    own = model.precision.default.dtype
    return apply_precision(model, "config" if own == FORMATS[wanted].dtype else wanted, kv_precision)


def _reference(name: str, models: Path) -> str:
    """A config file of that name, or a built-in model: ``LLaMA v3.1 70B`` is llama-3.1-70b."""
    for file in models.glob("*.json"):
        if file.name == f"{name}.json":
            return str(file)
    spoken = re.sub(r"\bv(?=\d)", "", words(name))
    built_in = aliases().models.get(spoken, spoken.replace(" ", "-"))
    if built_in not in list_models():
        raise SkipError(f"unknown model {name!r}")
    return built_in
