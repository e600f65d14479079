"""Makes the weights of l2s_pretrained: ``python -m lts_bench.agents._pretraining WEIGHTS.npz``.

Every task of the suite train is searched by the agent `annealing` with counted evaluations; the networks then learn to
choose what its best strategies have. The same arguments give the same weights on the same class of CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from lts_bench.agents._adam import Adam
from lts_bench.agents._history import values
from lts_bench.agents._moves import operator_masks
from lts_bench.agents._transfer import PAIRS, Inputs
from lts_bench.agents.annealing import Annealing
from lts_bench.budget import Budget
from lts_bench.problem import LocalProblem
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import load_suite
from lts_bench.task import Task

EVALUATIONS = 2_000
"""Of every task."""
ELITES, WORTH = 32, 0.95
"""Most strategies that operators are learned from, and the least share of the best goodput that they reach."""
SHARPNESS = 0.03
"""Loss of goodput, as a share, that makes degrees 1/e as desirable."""
HIDDEN, EPOCHS, LEARNING_RATE, DECAY = 64, 15, 2e-3, 1e-4
TASKS_A_STEP, ROWS_A_STEP = 8, 512


class Lesson(NamedTuple):
    """What one task teaches.

    Attributes:
        degrees: (degrees, inputs), ``desired`` (degrees,) their shares.
        operators: (n, inputs), ``chosen`` (n,) pairs of letters among ``legal`` (n, pairs).
    """

    degrees: np.ndarray
    desired: np.ndarray
    operators: np.ndarray
    chosen: np.ndarray
    legal: np.ndarray


class Recorded(LocalProblem):
    """A problem that keeps what it is asked."""

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        """Score vectors and remember them with their values."""
        answers = super().evaluate(vectors)
        self.asked.append((vectors, values(answers)))
        return answers

    asked: list[tuple[np.ndarray, np.ndarray]]


def searched(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors (n, d) that a search of a task evaluates, and their values (n,)."""
    problem = Recorded.of(task, Budget("training", EVALUATIONS, float("inf")))
    assert isinstance(problem, Recorded)
    problem.asked = []
    Annealing().run(problem, np.random.default_rng(seed))
    vectors, found = zip(*problem.asked, strict=True)
    return np.concatenate(vectors), np.concatenate(found)


def lesson(task: Task, vectors: np.ndarray, found: np.ndarray) -> Lesson:
    """Return what a task's evaluations teach; at least one is feasible."""
    inputs, best = Inputs(task.space, task.features), found.max()
    reached = np.zeros(len(task.space.degrees))
    np.maximum.at(reached, vectors[:, 0], found)
    desired = np.where(reached > 0, np.exp((reached / best - 1.0) / SHARPNESS), 0.0)
    elites, first = np.unique(vectors[found >= WORTH * best], axis=0, return_index=True)
    order = np.argsort(-found[found >= WORTH * best][first], kind="stable")[:ELITES]
    rows = list(_operator_rows(task, inputs, elites[order]))
    operators, chosen, legal = (np.concatenate(each) for each in zip(*rows, strict=True))
    return Lesson(inputs.of_degrees[0], desired / desired.sum(), operators, chosen, legal)


def _operator_rows(
    task: Task, inputs: Inputs, vectors: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield inputs, chosen pairs and legal pairs of every operator whose choice is not forced."""
    masks = operator_masks(task.space, vectors[:, 0])
    for operator in inputs.order:
        pairs = inputs.pairs(operator)
        legal = np.zeros((len(vectors), PAIRS), dtype=np.bool_)
        legal[:, pairs] = masks[:, operator, : len(pairs)]
        free = legal.sum(axis=1) > 1
        rows = inputs.of_operator(vectors[:, 0], vectors[:, 1:], operator)
        yield rows[free], pairs[vectors[free, 1 + operator]], legal[free]


def lessons(count: int) -> Iterator[Lesson]:
    """Yield what the first tasks of train teach; a task whose search finds nothing feasible teaches nothing."""
    for number, spec in enumerate(load_suite("train").tasks[:count]):
        try:
            task = Task(spec)
            vectors, found = searched(task, number)
        except InputError as error:
            print(f"{spec.name}: {error}", file=sys.stderr)
            continue
        if found.max() > 0:
            yield lesson(task, vectors, found)


def network(rows: np.ndarray, outputs: int) -> tuple[nn.Sequential, np.ndarray, np.ndarray]:
    """Return two layers of tanh, and mean and deviation of the inputs that they are trained on."""
    last = nn.Linear(HIDDEN, outputs)
    nn.init.normal_(last.weight, std=0.01)
    layers = nn.Sequential(nn.Linear(rows.shape[1], HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), last)
    return layers, rows.mean(axis=0), np.maximum(rows.std(axis=0), 0.05)


def standardised(rows: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> torch.Tensor:
    """Return rows as the networks read them."""
    return torch.as_tensor(((rows - mean) / deviation).clip(-3.0, 3.0), dtype=torch.float32)


def step(optimizer: Adam, layers: nn.Module, loss: torch.Tensor) -> None:
    """Descend, with a pull of the weights towards zero."""
    optimizer.zero_grad()
    pull = torch.stack([each.square().sum() for each in layers.parameters()]).sum()
    (loss + DECAY * pull).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def train_degrees(taught: Sequence[Lesson], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the network of the degrees: cross-entropy with the desired shares, task by task."""
    layers, mean, deviation = network(np.concatenate([each.degrees for each in taught]), 1)
    rows = [standardised(each.degrees, mean, deviation) for each in taught]
    desired = [torch.as_tensor(each.desired, dtype=torch.float32) for each in taught]
    optimizer = Adam(layers.parameters(), LEARNING_RATE)
    for _ in range(EPOCHS):
        for picked in _batches(len(taught), TASKS_A_STEP, rng):
            logits = layers(torch.cat([rows[at] for at in picked]))[:, 0].split([len(rows[at]) for at in picked])
            losses = [-(desired[at] * own.log_softmax(dim=0)).sum() for at, own in zip(picked, logits, strict=True)]
            step(optimizer, layers, torch.stack(losses).mean())
    return _arrays("degrees", layers, mean, deviation)


def train_operators(taught: Sequence[Lesson], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the network of the operators: cross-entropy with the choices of the best strategies."""
    inputs = np.concatenate([each.operators for each in taught])
    layers, mean, deviation = network(inputs, PAIRS)
    rows = standardised(inputs, mean, deviation)
    chosen = torch.as_tensor(np.concatenate([each.chosen for each in taught]))
    legal = torch.as_tensor(np.concatenate([each.legal for each in taught]))
    optimizer = Adam(layers.parameters(), LEARNING_RATE)
    for _ in range(EPOCHS):
        for picked in _batches(len(rows), ROWS_A_STEP, rng):
            logits = layers(rows[picked]).masked_fill(~legal[picked], -torch.inf)
            step(optimizer, layers, nn.functional.cross_entropy(logits, chosen[picked]))
    return _arrays("operators", layers, mean, deviation)


def _batches(count: int, size: int, rng: np.random.Generator) -> Iterable[np.ndarray]:
    order = rng.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]


def _arrays(name: str, layers: nn.Sequential, mean: np.ndarray, deviation: np.ndarray) -> dict[str, np.ndarray]:
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    arrays = {f"{name}.mean": mean, f"{name}.deviation": deviation}
    for at, layer in enumerate(linear):
        arrays[f"{name}.{at}.weight"] = layer.weight.detach().numpy()
        arrays[f"{name}.{at}.bias"] = layer.bias.detach().numpy()
    return {key: array.astype(np.float32) for key, array in arrays.items()}


def trained(taught: Sequence[Lesson]) -> bytes:
    """Return the content of the file of weights."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    file = io.BytesIO()
    arrays: dict[str, Any] = train_degrees(taught, rng) | train_operators(taught, rng)
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def main() -> None:
    """Search, train, write the weights and print their digest."""
    parser = argparse.ArgumentParser(description="Make the weights of l2s_pretrained.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=520, help="of the suite train")
    arguments = parser.parse_args()
    content = trained(list(lessons(arguments.tasks)))
    arguments.out.write_bytes(content)
    print(hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    main()
