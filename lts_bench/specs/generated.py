"""Generated suites: tasks without end, drawn from a seed over models, clusters, lengths and limits.

The splits share neither a family of models nor a kind of network, so that what is learned on one is tried on others
that it has not seen. A draw is a proposal: its limits are multiples of a rough physical scale. Whether a strategy meets
them is for the cost model to say; a proposal without one is drawn again (`lts_bench.generate`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np

from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.failure import InputError
from lts_bench.specs.formats import DTYPE_BYTES
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload

REDRAWS_FILE = "redraws.json"


@dataclass(frozen=True)
class Split:
    """What the tasks of a split are drawn from.

    Attributes:
        models: built-in ones, of families that no other split has.
        clusters: built-in ones, with networks of kinds that no other split has.
        tasks: how many the suite of this name holds; 0 where it is drawn anew for each verification.
        description: of the suite.
    """

    models: tuple[str, ...]
    clusters: tuple[str, ...]
    tasks: int
    description: str


SPLITS: Mapping[str, Split] = {
    "train": Split(
        models=(
            "gpt-20b", "gpt-3-175b", "gpt-6.7b", "gpt-89b", "gpt-j-6b", "llama-2-13b", "llama-2-70b", "llama-2-7b",
            "llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b", "llama-4-maverick", "llama-4-scout", "mistral-7b",
            "mixtral-8x22b", "mixtral-8x7b", "qwen2.5-72b", "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen3-32b",
            "qwen3-8b", "qwen3-next-80b-a3b",
        ),
        clusters=(
            "a100x16", "a100x64", "b200x32", "b200x256", "gaudi3x64", "h100x8", "h100x32", "h100x128", "h100x512",
            "h20x64", "h200x64", "l40sx16", "mi300x-64", "mi300x-256", "tpu-v4-8x8x8", "tpu-v5p-4x4x8",
            "tpu-v5p-8x8x16",
        ),
        tasks=1000,
        description="1,000 generated tasks to train on: switched and fully meshed nodes on rails, and 3-D tori.",
    ),
    "test": Split(
        models=("deepseek-r1", "deepseek-v3", "gpt-oss-120b", "gpt-oss-20b", "kimi-k2", "moe-1.6t"),
        clusters=(
            "gb200x72", "gb200x288", "gb200x1152", "gb300x144", "h100-oversub-64", "h100-oversub-256",
            "h100-oversub-1024", "tpu-v5e-4x8", "tpu-v5e-8x8", "tpu-v5e-16x16",
        ),
        tasks=200,
        description=(
            "200 generated tasks whose models and networks train has not: racks of 72, oversubscribed trees, 2-D tori."
        ),
    ),
    "heldout": Split(
        models=("falcon-180b", "minimax-m2.5", "mt-nlg-530b", "palm-540b", "switch-c-1.6t"),
        clusters=(
            "ascend-910c-64", "ascend-910c-384", "gh200x64", "gh200x256", "h100-dragonfly-128", "h100-dragonfly-512",
            "h100-dragonfly-1024", "trainium2x64", "trainium2x256", "trainium2x1024",
        ),
        tasks=0,
        description="Generated tasks whose models and networks neither train nor test has.",
    ),
}  # fmt: skip

LENGTHS = (
    (512, 128), (1024, 128), (1024, 512), (1024, 1024), (1024, 4096), (2048, 256), (2048, 1024), (4096, 512),
    (8192, 256), (8192, 1024), (16384, 512),
)  # fmt: skip
"""Prompt and answer in tokens: chat, code completion, reasoning, long documents (assumed)."""

MOST_SPARE = 64
"""A cluster is at most so many times the devices that hold the model: larger ones repeat the same replicas."""
WEIGHTS_SHARE = 0.5
"""Of the memory, for weights: the rest is for the cache (assumed)."""
WIDENINGS = (1, 2, 4)
"""Devices of the replica that limits are scaled by ÷ the least that hold the model (assumed)."""
LAYER_S = 40e-6
"""Launches and two all-reduces of a layer (assumed)."""
PREFILL_EFFICIENCY = 0.5
"""Of the peak, in the scale of the time to first token (assumed)."""
TPOT_FACTORS = (1.5, 8.0)
TTFT_FACTORS = (2.5, 16.0)
"""Limit ÷ scale, tight to loose; drawn log-uniformly (assumed)."""
LEAST_TPOT_MS = 5.0
LEAST_TTFT_MS = 100.0
"""The tightest limits: services in use ask for 10 ms and 125 ms (AIConfigurator's examples, DistServe)."""


class Facts(NamedTuple):
    """What a proposal asks of a model."""

    weight_bytes: float
    active: int
    layers: int
    max_context: float


def split_of(name: str) -> Split:
    """Return a split.

    Raises:
        InputError: there is none of that name.
    """
    if name not in SPLITS:
        raise InputError("no such split", field="split", value=name, legal=tuple(SPLITS))
    return SPLITS[name]


def named_tasks(name: str) -> tuple[TaskSpec, ...]:
    """Return the tasks of the built-in suite of a split; each has a feasible strategy."""
    return tuple(_named_task(name, index) for index in range(SPLITS[name].tasks))


def _named_task(name: str, index: int) -> TaskSpec:
    return proposal(name, index, stored_redraws().get(name, {}).get(str(index), 0))


def find_task(name: str) -> TaskSpec | None:
    """Return the task of that name of a built-in generated suite, None where there is none."""
    split, _, digits = name.rpartition("/")[2].rpartition("-")
    if split not in SPLITS or not digits.isdecimal() or int(digits) >= SPLITS[split].tasks:
        return None
    found = _named_task(split, int(digits))
    return found if found.name == name else None


@cache
def stored_redraws() -> dict[str, dict[str, int]]:
    """Return how often a task of a built-in suite was drawn again, by split and index; never where it is left out."""
    file = resources.files("lts_bench.suites").joinpath(REDRAWS_FILE)
    redraws: dict[str, dict[str, int]] = json.loads(file.read_text(encoding="utf-8"))
    return redraws


def proposal(split: str, index: int, attempt: int = 0, salt: str = "") -> TaskSpec:
    """Return a task of a split; it depends on the arguments alone, and attempts share model and cluster.

    Args:
        split: train, test or heldout.
        index: of the task, from 0 without end.
        attempt: how often its limits were drawn before.
        salt: makes another sequence of tasks; part of the names.
    """
    pairs = _pairs(split)
    model, cluster = pairs[int(_generator(split, salt, index).integers(len(pairs)))]
    rng = _generator(split, salt, index, attempt)
    facts, chip = _facts(model), _cluster(cluster).chip
    lengths = [pair for pair in LENGTHS if sum(pair) <= facts.max_context]
    isl, osl = lengths[rng.integers(len(lengths))]
    devices = min(_least_devices(model, cluster) * int(rng.choice(WIDENINGS)), _cluster(cluster).devices)
    # All weights are read once a token, a prompt is computed once, and a layer has its overhead in both.
    prefill_s = 2.0 * facts.active * isl / (devices * chip.peak_flops_per_s["bf16"] * PREFILL_EFFICIENCY)
    decode_s = facts.weight_bytes / (devices * chip.hbm_bytes_per_s)
    overhead_s = facts.layers * LAYER_S
    slo = Slo(
        ttft_ms=_limit(rng, prefill_s + overhead_s, TTFT_FACTORS, LEAST_TTFT_MS),
        tpot_ms=_limit(rng, decode_s + overhead_s, TPOT_FACTORS, LEAST_TPOT_MS),
    )
    label = f"{split}-{salt}-{index:05d}" if salt else f"{split}-{index:05d}"
    return TaskSpec(f"{model}/{cluster}/{label}", model, cluster, Workload(isl, osl, slo), why="generated")


def _generator(*key: object) -> np.random.Generator:
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest))


@cache
def _pairs(split: str) -> tuple[tuple[str, str], ...]:
    """All models on the clusters that hold them and are not far larger."""
    chosen = split_of(split)
    return tuple(
        (model, cluster)
        for model, cluster in itertools.product(chosen.models, chosen.clusters)
        if 1 <= _cluster(cluster).devices / _least_devices(model, cluster) <= MOST_SPARE
    )


_cluster = cache(load_cluster)


@cache
def _facts(name: str) -> Facts:
    model = load_model(name)
    counts = model.parameters
    weight_bytes = counts.total * DTYPE_BYTES[model.precision.default.dtype]
    return Facts(weight_bytes, counts.active, len(model.layers), model.max_context or math.inf)


def _least_devices(model: str, cluster: str) -> int:
    """Devices, a power of two, that hold the weights and leave room for a cache."""
    room = WEIGHTS_SHARE * _cluster(cluster).chip.hbm_bytes_usable
    return 1 << max(0, math.ceil(math.log2(_facts(model).weight_bytes / room)))


def _limit(rng: np.random.Generator, scale_s: float, factors: tuple[float, float], least_ms: float) -> float:
    """Draw a limit in ms, of three digits."""
    tightest, loosest = (1e3 * scale_s * factor for factor in factors)
    shift = max(1.0, least_ms / tightest)
    return float(f"{shift * math.exp(rng.uniform(math.log(tightest), math.log(loosest))):.3g}")
