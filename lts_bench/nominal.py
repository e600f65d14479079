"""What a model-based agent may know: a task's model, cluster, engine and workload with their nominal constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import ModelFiles, model_from_config, read_model_files
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import convert
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Parts, Task

SETTINGS = ("precision", "kv_precision", "serving")
"""Fields of a spec that are no names of anything."""


def nominal_for(track: str, spec: TaskSpec) -> dict[str, Any] | None:
    """Return `nominal_data` for agents of the track ``model_based``, else None."""
    return nominal_data(spec) if track == "model_based" else None


def nominal_data(spec: TaskSpec) -> dict[str, Any]:
    """Return as plain data what the names in a spec stand for: no name of a task, no instance, no path.

    Returns:
        ``model`` {``name``, ``config``, ``quantization``}, the contents of config.json and hf_quant_config.json;
        ``cluster`` and ``engine`` with all constants; ``workload``; ``precision``, ``kv_precision`` and ``serving``.
    """
    files = read_model_files(spec.model)
    return {
        "model": {"name": files.name, "config": files.config, "quantization": files.quantization},
        "cluster": msgspec.to_builtins(load_cluster(spec.cluster)),
        "engine": msgspec.to_builtins(load_engine(spec.engine)),
        "workload": msgspec.to_builtins(spec.workload),
        **{name: getattr(spec, name) for name in SETTINGS},
    }


def nominal_task(data: Mapping[str, Any] | None) -> Task:
    """Return the task with nominal constants that `nominal_data` describes.

    Args:
        data: ``nominal`` of a problem.

    Raises:
        InputError: the problem tells nothing, or nothing that can be read.
    """
    if data is None:
        raise InputError("the problem tells no nominal constants", field="nominal")
    files = ModelFiles(source="nominal", **data["model"])
    cluster, engine = convert(data["cluster"], Cluster, "nominal"), convert(data["engine"], Engine, "nominal")
    names = {"model": files.name, "cluster": cluster.name, "engine": engine.name}
    rest = {key: data[key] for key in ("workload", *SETTINGS)}
    spec = convert({"name": f"{files.name}/{cluster.name}/nominal", **names, **rest}, TaskSpec, "nominal")
    return Task(spec, parts=Parts(model_from_config(*files), cluster, engine))
