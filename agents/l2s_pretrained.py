"""A policy that was trained on other tasks: it starts where their best strategies lie, and moves on from the elites."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Mapping
from importlib import resources
from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours, operator_masks
from lts_bench.agents._surrogate import Encoding, expected_improvement, fitted, normal_scores
from lts_bench.agents._transfer import Inputs
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.specs.failure import InputError

WEIGHTS = "l2s_pretrained.npz"
DIGEST = "f5c5c7285e271ef38631b98eda40479f5b1030afb8aaaf0ffcb6ce4709bca731"
"""sha256 of the weights: other weights are another version."""


class L2SPretrained(Agent):
    """A policy over degrees and operators, learned from the best strategies of tasks of the suite train.

    Two networks score what is chosen next: the degrees by ratios of what they hold, read and send to what the machine
    has and the limits allow, then every operator by its name, the degrees and the letters of its neighbours. They know
    decisions by name and degrees by number, so that they apply to any space. The likeliest strategies come first. Then
    a Gaussian process picks, by expected improvement, among new draws of the policy, elites with some decisions redrawn
    by it, and neighbours of elites.

    Trained on the first 520 tasks of train: searches by the agent `annealing`, 2,000 counted evaluations each,
    1,040,000 together, 0.2 CPU-hours, by ``python -m lts_bench.agents._pretraining WEIGHTS.npz``. Tuned at e50 on 34
    tasks of train whose models or clusters were held out of a training for that purpose, 2 to 3 seeds, 25 settings,
    70,000 evaluations: the process instead of chance (0.86 to 0.90 of the optimum) and temperature 2 helped; 5 to 20
    first strategies, batches of 2 to 8, 2 to 8 elites, lengths 2 to 4, and first strategies that were spread over
    replicas did not.
    """

    name, version, track, anytime = "l2s_pretrained", "1", "pretrained", True
    defaults: ClassVar[dict[str, Any]] = {
        "first": 10,
        "batch": 4,
        "elites": 4,
        "candidates": 40,
        "resampled": 0.2,
        "temperature": 2.0,
        "length": 3.0,
        "points": 200,
    }

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Evaluate the likeliest strategies, then draw, pick and learn until the budget is spent."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        policy = Policy(problem.space, features, load_weights())
        moves, encoding = Neighbours(problem.space), Encoding(problem.space)
        history = History(problem.space, self.parameters["points"])
        vectors = problem.space.canonical(policy.likeliest(self.parameters["first"]))
        with contextlib.suppress(BudgetExhausted):
            while problem.remaining:
                history.add(vectors, values(problem.evaluate(vectors)))
                candidates = problem.space.canonical(self._candidates(policy, history, moves, rng))
                vectors = self._promising(encoding, history, candidates)

    def _promising(self, encoding: Encoding, history: History, candidates: np.ndarray) -> np.ndarray:
        """Return the candidates of the highest expected improvement; the last, random ones where none is new."""
        batch, drawn = self.parameters["batch"], history.unseen(candidates)
        if not len(drawn):
            return candidates[-batch:]
        process = fitted(encoding.of(history.vectors), normal_scores(history.values), self.parameters["length"])
        promised = expected_improvement(process, encoding.of(drawn))
        chosen: np.ndarray = drawn[np.argsort(-promised, kind="stable")[:batch]]
        return chosen

    def _candidates(self, policy: Policy, history: History, moves: Neighbours, rng: np.random.Generator) -> np.ndarray:
        """Return new draws, elites with decisions redrawn, neighbours of elites, and random strategies."""
        count = self.parameters["candidates"]
        fresh = policy.draw(policy.draw_degrees(count, self.parameters["temperature"], rng), rng)
        elites = history.vectors[rng.integers(min(len(history.vectors), self.parameters["elites"]), size=count)]
        kept = rng.random((count, elites.shape[1] - 1)) >= self.parameters["resampled"]
        redrawn = policy.draw(elites[:, 0], rng, kept=np.where(kept, elites[:, 1:], -1))
        random = policy.space.sample(self.parameters["batch"], rng)
        return np.concatenate((fresh, redrawn, moves.draw(elites, rng), random))


def load_weights() -> dict[str, np.ndarray]:
    """Return the arrays of the networks.

    Raises:
        InputError: they are not those of this version.
    """
    content = resources.files("lts_bench.agents").joinpath(WEIGHTS).read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != DIGEST:
        raise InputError("not the weights of this version", source=WEIGHTS, field="sha256", value=found, legal=[DIGEST])
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


class Policy:
    """Probabilities of the degrees, then of each operator given those before it."""

    def __init__(self, space: Space, features: Mapping[str, float], weights: Mapping[str, np.ndarray]) -> None:
        self.space, self._weights, self.inputs = space, weights, Inputs(space, features)
        logits = [network(weights, "degrees", pool)[:, 0] for pool in self.inputs.of_degrees]
        self.degrees: np.ndarray = np.sum(logits, axis=0)

    def likeliest(self, count: int) -> np.ndarray:
        """Return (count, d): at each of the likeliest degrees, if there are as many, the likeliest operators."""
        return self.draw(np.argsort(-self.degrees, kind="stable")[:count], None)

    def draw_degrees(self, count: int, temperature: float, rng: np.random.Generator) -> np.ndarray:
        """Return (count,) degrees, the more even the hotter."""
        noise = rng.gumbel(size=(count, len(self.degrees)))
        degrees: np.ndarray = (self.degrees + temperature * noise).argmax(axis=1)
        return degrees

    def draw(self, degrees: np.ndarray, rng: np.random.Generator | None, kept: np.ndarray | None = None) -> np.ndarray:
        """Return vectors (n, d) of the degrees (n,).

        Args:
            degrees: as indices.
            rng: None for the likeliest choices instead of drawn ones.
            kept: (n, operators) choices that stay, -1 for those to be drawn.
        """
        masks = operator_masks(self.space, degrees)
        drawn = np.full((len(degrees), masks.shape[1]), -1) if kept is None else kept.copy()
        for operator in self.inputs.order:
            logits = network(self._weights, "operators", self.inputs.of_operator(degrees, drawn, operator))
            scores = self.inputs.scores(logits, operator, masks[:, operator])
            noise = 0.0 if rng is None else rng.gumbel(size=scores.shape)
            drawn[:, operator] = np.where(drawn[:, operator] < 0, (scores + noise).argmax(axis=1), drawn[:, operator])
        return np.concatenate((degrees[:, np.newaxis], drawn), axis=1)


def network(weights: Mapping[str, np.ndarray], name: str, inputs: np.ndarray) -> np.ndarray:
    """Return the outputs (n, k) of two layers of tanh on standardised inputs (n, i), cut where training had none."""
    hidden = ((inputs - weights[f"{name}.mean"]) / weights[f"{name}.deviation"]).clip(-3.0, 3.0)
    for layer in (0, 1):
        hidden = np.tanh(hidden @ weights[f"{name}.{layer}.weight"].T + weights[f"{name}.{layer}.bias"])
    outputs: np.ndarray = hidden @ weights[f"{name}.2.weight"].T + weights[f"{name}.2.bias"]
    return outputs
