"""A small space with the interface of the real one, and a task on it whose best strategy is known."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any

import numpy as np

from lts_bench.answer import ANSWER, ILLEGAL_VIOLATION

LETTERS = ("R", "M", "K", "N")
CORE = ("R", "heads", "batch", "kv_sequence")
VOCABULARY = ("R", "M", "vocabulary", "hidden")
OPERATORS: dict[str, tuple[str, ...]] = {
    "dense.stream": ("R", "M", "N"),
    "dense.attention.qkv": LETTERS,
    "dense.attention.core": CORE,
    "dense.attention.out": LETTERS,
    "dense.ffn.up": LETTERS,
    "dense.ffn.down": LETTERS,
    "embed": VOCABULARY,
    "head": VOCABULARY,
}
HEADS = 4


class ToySpace:
    """Degrees of up to 8 devices and eight operators; the core splits at most 4 heads."""

    def __init__(self, devices: int = 8) -> None:
        powers = [2**i for i in range(devices.bit_length())]
        entries = [
            (devices // (pp * tx * ty), pp, 1, tx, ty, 1, tx * ty)
            for pp, tx, ty in itertools.product(powers, powers, powers)
            if pp * tx * ty <= devices and (tx == 1 or ty > 1)
        ]
        self.devices = devices
        self.degrees = np.array(entries, dtype=np.int64)
        labels = tuple(f"pp={pp} dp={dp} tp={tx}x{ty} ep={ep} etp={etp}" for _, pp, dp, tx, ty, ep, etp in entries)
        pairs = [tuple(f"{x},{y}" for x in letters for y in letters) for letters in OPERATORS.values()]
        self.names = ("degrees", *OPERATORS)
        self.choices = (labels, *pairs)
        self.sizes = np.array([len(choices) for choices in self.choices], dtype=np.int64)
        self.digest = hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()
        self._masks = np.stack([self._build_mask(i) for i in range(len(entries))])

    def _build_mask(self, index: int) -> np.ndarray:
        tx, ty = int(self.degrees[index, 3]), int(self.degrees[index, 4])
        mask = np.zeros((len(self.sizes), int(self.sizes.max())), dtype=np.bool_)
        mask[0, : self.sizes[0]] = True
        for row, choices in enumerate(self.choices[1:], start=1):
            for column, label in enumerate(choices):
                x, y = label.split(",")
                split = (tx if x == "heads" else 1) * (ty if y == "heads" else 1)
                mask[row, column] = (tx > 1 or x == "R") and (ty > 1 or y == "R") and HEADS % split == 0
        return mask

    def mask(self, degrees_index: int) -> np.ndarray:
        return self._masks[degrees_index]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        degrees = rng.integers(self.sizes[0], size=n)
        vectors = np.argmax(rng.random(self._masks[degrees].shape) * self._masks[degrees], axis=2)
        vectors[:, 0] = degrees
        return vectors

    def legal(self, vectors: np.ndarray) -> np.ndarray:
        return self._allowed(vectors).all(axis=1)

    def canonical(self, vectors: np.ndarray) -> np.ndarray:
        return vectors

    def repair(self, vectors: np.ndarray) -> np.ndarray:
        first = np.argmax(self._masks[vectors[:, 0]], axis=2)
        repaired = np.where(self._allowed(vectors), vectors, first)
        repaired[:, 0] = vectors[:, 0]
        return repaired

    def decode(self, vector: np.ndarray) -> dict[str, str]:
        return {name: self.choices[i][int(vector[i])] for i, name in enumerate(self.names)}

    def encode(self, strategy: dict[str, str]) -> np.ndarray:
        return np.array([self.choices[i].index(strategy[name]) for i, name in enumerate(self.names)])

    def to_dict(self) -> dict[str, Any]:
        return {"devices": self.devices}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ToySpace:
        return cls(data["devices"])

    def _allowed(self, vectors: np.ndarray) -> np.ndarray:
        rows, columns = np.arange(len(vectors))[:, np.newaxis], np.arange(vectors.shape[1])
        return self._masks[vectors[:, 0]][rows, columns, vectors]


class ToyTask:
    """Each choice costs what a seeded table says; fewer than two devices a replica don't hold the model."""

    feedback = "graded"

    def __init__(self, seed: int = 0, feedback: str = "graded", memory_limit_bytes: float = 0.6) -> None:
        self.space = ToySpace()
        self.feedback = feedback
        self.memory_limit_bytes = memory_limit_bytes
        self._cost = np.random.default_rng(seed).random((len(self.space.names), int(self.space.sizes.max())))
        self.features = {
            "parameters": 7e10,
            "active_parameters": 7e10,
            "experts": 0.0,
            "top_k": 0.0,
            "weight_bytes": 2.0,
            "devices": 8.0,
            "domain_devices": 4.0,
            "hbm_bytes": 8e10,
            "memory_fraction": 0.9,
            "reference_goodput_per_npu": 20.0,
        }

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        answers = np.zeros(len(vectors), dtype=ANSWER)
        legal = self.space.legal(vectors)
        cost = self._cost[np.arange(vectors.shape[1]), vectors].sum(axis=1)
        memory = 1.0 / np.prod(self.space.degrees[vectors[:, 0]][:, [1, 3, 4]], axis=1)
        violation = np.maximum(0.0, memory / self.memory_limit_bytes - 1.0)
        answers["legal"], answers["feasible"] = legal, legal & (violation == 0.0)
        answers["goodput_per_npu"] = np.where(answers["feasible"], 100.0 / (0.5 + cost), 0.0)
        answers["tpot_s"], answers["ttft_s"], answers["memory_bytes"] = cost / 100.0, cost, memory
        answers["violation"][:, 0] = violation
        answers["violation"][~legal] = ILLEGAL_VIOLATION
        return answers

    def optimum(self) -> float:
        """The best goodput: per degrees, the sum of the cheapest allowed choices."""
        masked = np.where(self.space._masks, self._cost, np.inf)
        masked[:, 0] = np.inf
        masked[np.arange(len(masked)), 0, np.arange(len(masked))] = self._cost[0, : len(masked)]
        vectors = np.argmin(masked, axis=2)
        return float(self.evaluate(vectors)["goodput_per_npu"].max())


class Watched:
    """A task that keeps all it was asked and the goodputs it answered, in order."""

    def __init__(self, task: Any) -> None:
        self._task, self.space, self.features, self.feedback = task, task.space, task.features, task.feedback
        self.asked: list[list[int]] = []
        self.goodputs: list[float] = []

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        answers = self._task.evaluate(vectors)
        self.asked += np.asarray(vectors).tolist()
        self.goodputs += answers["goodput_per_npu"].tolist()
        return answers
