"""Spaces small enough to be searched through, of every kind that the exact search treats differently."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
from tiny_settings import dense_model, latent_model, moe_model

from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.space.decisions import Space
from lts_bench.space.degrees import valid_degrees
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.engine import load_engine
from lts_bench.specs.model import Model
from lts_bench.specs.perturbation import perturbed
from lts_bench.specs.workload import parse_workload

MODELS: dict[str, Model] = {
    "dense": dense_model(4),
    "dense, one kv head": dense_model(3, heads=6, kv_heads=1),
    "dense, unequal stages": dense_model(5),
    "dense, tied": dense_model(5, kv_heads=2, tied=True),
    "two kinds": moe_model(4),
    "two kinds, tied": moe_model(8, tied=True),
    "latent attention": latent_model(),
}
CLUSTERS = ("h100x8", "h100x16", "a100x16", "tpu-v5e-4x4", "gb200x8", "mi300x-16")
ENGINES = ("generic", "generic", "vllm", "trtllm", "sglang")


def restricted(space: Space, rng: np.random.Generator, most: int) -> Space:
    """The space with choices taken out until no degrees have more than so many strategies."""
    masks = space.masks.copy()
    for mask in masks[:, 1:]:
        while np.prod(mask.sum(axis=1).astype(float)) > most:
            operator = rng.choice(np.flatnonzero(mask.sum(axis=1) > 1))
            mask[operator, rng.choice(np.flatnonzero(mask[operator]))] = False
    return Space(space.operators, space.degrees, space.layers, space.mask_rows, masks)


def all_vectors(space: Space) -> np.ndarray:
    """Every strategy of a space."""
    parts = []
    for degrees, row in enumerate(space.mask_rows):
        choices = [np.flatnonzero(mask) for mask in space.masks[row, 1:]]
        parts.append(np.array([(degrees, *each) for each in itertools.product(*choices)]))
    return np.concatenate(parts)


def drawn_space(seed: int, most: int = 1500, **workload: Any) -> tuple[Space, CostModel]:
    """A restricted space of a random model, cluster, engine and workload, with constants drawn as well."""
    rng = np.random.default_rng(seed)
    model = MODELS[str(rng.choice(list(MODELS)))]
    engine = load_engine(str(rng.choice(ENGINES)))
    cluster, engine = perturbed(load_cluster(str(rng.choice(CLUSTERS))), engine, rng)
    lengths = f"isl={rng.choice([64, 256, 2048, 8192])},osl={rng.choice([16, 128, 1024])}"
    limits = f"ttft_ms={np.exp(rng.uniform(-1, 5.5)):.4g},tpot_ms={np.exp(rng.uniform(-2, 1.5)):.4g}"
    given = parse_workload(f"{lengths},{limits}")
    fraction = float(rng.choice([0.9, 0.9, 0.01, 0.002]))
    given = msgspec.structs.replace(given, **({"memory_fraction": fraction} | workload))
    listed = valid_degrees(model, cluster)
    few = sorted(rng.choice(len(listed), size=min(5, len(listed)), replace=False))
    chosen = [listed[at] for at in few]
    space = restricted(Space.build(model, cluster, chosen), rng, most)
    return space, CostModel(Setting(model, cluster, engine, Phases.of(given, engine)), chosen)
