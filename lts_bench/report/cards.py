"""Cards: what a task is like, measured once and kept beside its suite; and whether that admits it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np

from lts_bench.budget import parse_budget
from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.certificates import certificate_of, drawn_task
from lts_bench.exact.optimum import optimum
from lts_bench.registry import load_agent
from lts_bench.space.disaggregated import POOLS, Disaggregated
from lts_bench.space.megatron import megatron_vectors
from lts_bench.space.operators import operators
from lts_bench.space.strategy import Strategy, complete_sharding
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task
from lts_bench.testing.conformance import run_agent

INSTANCES = 5
"""Machines with drawn constants on which a card looks at its task."""
SAMPLES = 100_000
"""Random strategies behind each share."""
SEEDS = (1, 2, 3)
"""Runs behind a median."""
SEARCH = parse_budget("e1k").evaluations
RECIPES = parse_budget("e10k").evaluations
"""Evaluations of the searches, and of the library of recipes."""
REACHED = (0.95, 0.99)
"""Shares of the optimum whose evaluations are counted."""
DIGITS = 6

LEAST_OVER_MEGATRON = 1.06
MOST_RANDOM = 0.85
MOST_EVOLUTION = 0.95
"""The admission test: what an optimum is worth beside Megatron's pattern, what searches may reach without effort."""


class Spread(msgspec.Struct, frozen=True):
    """The least and the most over the instances."""

    least: float
    most: float


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one task is like.

    Attributes:
        log10_size: of the number of legal, distinct strategies.
        degrees: number of valid degrees.
        legal: share of legal strategies among uniform vectors over all choices.
        fits: share of those that fit the memory among random legal strategies.
        feasible: share of those that meet the limits, too.
        goodput_per_npu: of the optimum, tokens/s.
        certified: whether that is proved to be the optimum; else it is the bound on it.
        optimum: the optimum's degrees.
        unlike_megatron: which operators it splits otherwise than Megatron's pattern does.
        over_megatron: optimum ÷ the best of Megatron's pattern, None where that is never feasible.
        random: share of the optimum that random search reaches in 1,000 evaluations, median of three seeds.
        evolution: the same for the genetic algorithm.
        recipes: evaluations in which the recipes reach 95 % and 99 % of the optimum, None where they don't in 10,000.
        moved: optimum of an instance ÷ that of the nominal machine.
        megatron: best of Megatron's pattern on an instance ÷ the instance's optimum.
        replayed: the nominal optimum on an instance ÷ the instance's optimum.
        over_co_located: of disaggregated serving, optimum ÷ that of co-located serving on the same devices.
    """

    task: str
    digest: str
    log10_size: float
    degrees: int
    legal: float
    fits: float
    feasible: float
    goodput_per_npu: float
    certified: bool
    optimum: str
    unlike_megatron: str
    over_megatron: float | None
    random: float
    evolution: float
    recipes: tuple[int | None, int | None]
    moved: Spread
    megatron: Spread
    replayed: Spread
    over_co_located: float | None = None


class Deck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cards of a suite."""

    suite: str
    cost_model_version: str
    cards: tuple[Card, ...]


def make_card(spec: TaskSpec) -> Card:
    """Measure a task.

    Raises:
        InputError: no strategy is feasible.
    """
    task = Task(spec)
    found = optimum(task)
    if found.vector is None or found.strategy is None:
        raise InputError("no strategy is feasible", field="task", value=task.name)
    best = found.goodput_per_npu if found.certified else found.bound
    megatron = _megatron(task)
    legal, fits, feasible = _shares(task)
    moved, megatron_spread, replayed = _instances(task, found.vector, best)
    return Card(
        task=task.name,
        digest=task.digest,
        log10_size=_rounded(task.space.log10_size),
        degrees=len(task.space.degrees),
        legal=legal,
        fits=fits,
        feasible=feasible,
        goodput_per_npu=_rounded(best),
        certified=found.certified,
        optimum=found.strategy.degrees.label(),
        unlike_megatron=unlike_megatron(task, found.strategy),
        over_megatron=_rounded(best / megatron) if megatron else None,
        random=_reached("random", task, best),
        evolution=_reached("evolution", task, best),
        recipes=_evaluations("recipes", task, best),
        moved=moved,
        megatron=megatron_spread,
        replayed=replayed,
        over_co_located=_over_co_located(spec, best),
    )


def _over_co_located(spec: TaskSpec, best: float) -> float | None:
    """An optimum ÷ that of the same task served co-located; None where it is that."""
    if spec.serving == "co-located":
        return None
    other = optimum(Task(msgspec.structs.replace(spec, serving="co-located")))
    return _rounded(best / (other.goodput_per_npu if other.certified else other.bound))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _megatron(task: Task) -> float:
    return float(task.evaluate(megatron_vectors(task.space))["goodput_per_npu"].max())


def _shares(task: Task) -> tuple[float, ...]:
    """Shares of legal strategies among uniform vectors, and of fitting and feasible ones among random legal ones."""
    rng = np.random.default_rng(0)
    uniform = rng.integers(task.space.sizes, size=(SAMPLES, len(task.space.sizes)))
    answers = task.evaluate(task.space.sample(SAMPLES, rng))
    flags = task.space.legal(uniform), answers["violation"][:, 0] == 0, answers["feasible"]
    return tuple(_rounded(float(each.mean())) for each in flags)


def _reached(agent: str, task: Task, best: float) -> float:
    runs = [run_agent(load_agent(agent), task, SEARCH, seed=seed) for seed in SEEDS]
    return _rounded(float(np.median([run.best.goodput_per_npu if run.best else 0.0 for run in runs])) / best)


def _evaluations(agent: str, task: Task, best: float) -> tuple[int | None, int | None]:
    trace = run_agent(load_agent(agent), task, RECIPES).trace
    at95, at99 = (
        next((each.evaluation for each in trace if each.goodput_per_npu >= share * best), None) for share in REACHED
    )
    return at95, at99


def _instances(task: Task, vector: np.ndarray, best: float) -> tuple[Spread, ...]:
    """How the optimum moves, what Megatron's pattern is worth, and the nominal optimum, over the instances."""
    moved, megatron, replayed = [], [], []
    for number in range(1, INSTANCES + 1):
        machine, own = drawn_task(task, number), certificate_of(task, number).optimum
        moved.append(own / best)
        megatron.append(_megatron(machine) / own)
        replayed.append(float(machine.evaluate(vector[None])["goodput_per_npu"][0]) / own)
    return tuple(Spread(_rounded(min(each)), _rounded(max(each))) for each in (moved, megatron, replayed))


def unlike_megatron(task: Task, strategy: Strategy | Disaggregated) -> str:
    """Return the splits that differ from Megatron's pattern on the whole group, equal kinds of layers together."""
    if isinstance(strategy, Disaggregated):
        parts = {pool: unlike_megatron(task, getattr(strategy, pool)) for pool in POOLS}
        return " / ".join(f"{pool} {splits}" for pool, splits in parts.items())
    degrees, known = strategy.degrees, operators(task.model)
    pattern = complete_sharding({}, known, degrees.tx, degrees.ty)
    kinds: dict[tuple[str, str], list[str]] = {}
    for operator in known:
        choice = strategy.sharding[operator.key]
        if choice != pattern[operator.key] and not (operator.axes == 1 and degrees.etp == 1):
            split = choice[-1] if degrees.tx == 1 else ",".join(choice)
            kinds.setdefault((operator.name, split), []).append(operator.key)
    count = Counter(operator.name for operator in known)
    words = [
        f"{shown} {split}"
        for (name, split), keys in kinds.items()
        for shown in ([name] if len(keys) == count[name] else keys)
    ]
    return "; ".join(words).replace("attention.", "") or "nothing"


def admitted(card: Card, test: str | None) -> bool:
    """Whether a card passes the admission test of its suite; every card does where there is none."""
    return test is None or _TESTS[test](card)


def _core(card: Card) -> bool:
    return card.over_megatron is None or card.over_megatron >= LEAST_OVER_MEGATRON or card.random <= MOST_RANDOM


def _hard(card: Card) -> bool:
    return _core(card) and card.evolution <= MOST_EVOLUTION


_TESTS: dict[str, Callable[[Card], bool]] = {"core": _core, "hard": _hard}


def deck_file(suite: str) -> Path:
    """Where the cards of a built-in suite lie."""
    return Path(str(resources.files("lts_bench.suites"))) / "cards" / f"{suite}.json"


def deck_of(suite: Suite, cards: Iterable[Card]) -> Deck:
    """Return the cards of a suite's tasks, in its order."""
    known = {card.task: card for card in cards}
    return Deck(suite.name, COST_MODEL_VERSION, tuple(known[spec.name] for spec in suite.tasks))


def encode_deck(deck: Deck) -> bytes:
    """Return a deck as JSON."""
    return msgspec.json.format(msgspec.json.encode(deck), indent=1) + b"\n"


def read_deck(suite: str) -> Deck:
    """Read the cards of a built-in suite.

    Raises:
        InputError: there are none, or the file is broken.
    """
    path = deck_file(suite)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Deck)
    except OSError:
        raise InputError(f"has no cards; make them with lts-bench cards {suite}", field="suite", value=suite) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(str(error), source=str(path)) from None
