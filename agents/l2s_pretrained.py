"""A policy that was trained on other tasks: it starts where their best strategies lie, and moves on from the elites."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Mapping
from functools import partial
from importlib import resources
from typing import Any, ClassVar

import numpy as np

from lts_bench.agent import Agent
from lts_bench.agents._history import History, values
from lts_bench.agents._moves import Neighbours, operator_masks
from lts_bench.agents._transfer import Inputs
from lts_bench.budget import BudgetExhausted
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.specs.failure import InputError

WEIGHTS = "l2s_pretrained.npz"
DIGEST = "-"
"""sha256 of the weights: other weights are another version."""


class L2SPretrained(Agent):
    """A policy over degrees and operators, learned from the best strategies of tasks of the suite train.

    Two networks score what is chosen next: the degrees by ratios of what they hold, read and send to what the machine
    has and the limits allow, then every operator by its name, the degrees and the letters of its neighbours. They know
    decisions by name and degrees by number, so that they apply to any space. The first strategies are the likeliest;
    then the policy draws new ones, and resamples decisions of the best so far.
    """

    name, version, track, anytime = "l2s_pretrained", "1", "pretrained", True
    defaults: ClassVar[dict[str, Any]] = {"first": 10, "batch": 4, "elites": 4, "fresh": 0.25, "resampled": 0.2}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Evaluate the likeliest strategies, then draw and refine until the budget is spent."""
        features = dict(zip(problem.feature_names, problem.features.tolist(), strict=True))
        policy = Policy(problem.space, features, load_weights())
        history, moves = History(problem.space, self.parameters["elites"]), Neighbours(problem.space)
        with contextlib.suppress(BudgetExhausted):
            vectors = problem.space.canonical(policy.likeliest(self.parameters["first"]))
            history.add(vectors, values(problem.evaluate(vectors)))
            while problem.remaining:
                vectors = history.propose(partial(self._draw, policy, history, moves, rng), rng)
                history.add(vectors, values(problem.evaluate(vectors)))

    def _draw(self, policy: Policy, history: History, moves: Neighbours, rng: np.random.Generator) -> np.ndarray:
        """Return strategies: some are new, some are neighbours of elites, some elites with decisions redrawn."""
        count, resampled = self.parameters["batch"], self.parameters["resampled"]
        fresh = policy.draw(policy.draw_degrees(count, rng), rng)
        elites = history.vectors[rng.integers(len(history.vectors), size=count)]
        kept = rng.random((count, elites.shape[1] - 1)) >= resampled
        redrawn = policy.draw(elites[:, 0], rng, kept=np.where(kept, elites[:, 1:], -1))
        kind = rng.random((count, 1))
        near = np.where(kind < (1.0 + self.parameters["fresh"]) / 2.0, redrawn, moves.draw(elites, rng))
        return np.where(kind < self.parameters["fresh"], fresh, near)


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
        self.degrees = network(weights, "degrees", self.inputs.of_degrees)[:, 0]

    def likeliest(self, count: int) -> np.ndarray:
        """Return (count, d): at each of the likeliest degrees, if there are as many, the likeliest operators."""
        return self.draw(np.argsort(-self.degrees, kind="stable")[:count], None)

    def draw_degrees(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return (count,) degrees."""
        return (self.degrees + rng.gumbel(size=(count, len(self.degrees)))).argmax(axis=1)

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
