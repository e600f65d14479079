"""The page of all cards, and the command that makes cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.harness.execute import finished, worker_pool
from lts_bench.report import cards
from lts_bench.report.cards import Card, Deck, Spread, admitted, deck_file, deck_of, encode_deck, make_card, read_deck
from lts_bench.report.tables import NONE, markdown_table, markdown_text
from lts_bench.results.store import write_output
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, list_suites, load_suite
from lts_bench.task import Task

Progress = Callable[[int, int, str], None]

COLUMNS = (
    "Task", "Size", "Legal", "Fits", "Feasible", "Optimum", "at", "unlike Megatron", "÷ Megatron", "Random", "GA",
    "Recipes", "Admitted", "Optimum moves", "Megatron", "Replayed",
)  # fmt: skip
OVER_CO_LOCATED = "÷ co-located"
"""A further column where serving is disaggregated."""
ADMISSION = {
    "core": "Admission test: core.",
    "hard": "Admission test: hard.",
    None: "No admission test.",
}


def make_decks(suites: Sequence[Suite], workers: int, progress: Progress) -> list[Deck]:
    """Measure every task of some suites, each once.

    Raises:
        InputError: a task has no feasible strategy.
        WorkerLost: a worker was killed.
    """
    specs = {spec.name: spec for suite in suites for spec in suite.tasks}
    done: list[Card] = []
    with worker_pool(workers) as pool:
        for card in finished(pool, make_card, [(spec,) for spec in specs.values()]):
            done.append(card)
            progress(len(done), len(specs), card.task)
    return [deck_of(suite, done) for suite in suites]


def write_decks(decks: Sequence[Deck]) -> None:
    """Write cards beside their built-in suites."""
    for deck in decks:
        write_output(deck_file(deck.suite), encode_deck(deck))


def built_in(names: Sequence[str]) -> list[Suite]:
    """Return written built-in suites; all of them where none is named.

    Raises:
        InputError: there is none of that name.
    """
    known = list_suites(generated=False)
    for name in names:
        if name not in known:
            raise InputError("has no cards: no written built-in suite", field="suite", value=name, legal=known)
    return [load_suite(name) for name in names or known]


def problems(suites: Sequence[Suite], page: Path) -> Iterator[str]:
    """Yield a line for each card that is missing, stale or fails its suite's test, and if the page is another one."""
    for suite in suites:
        file = deck_file(suite.name)
        if file.is_file():
            yield from (f"{file}: {problem}" for problem in _deck_problems(suite, read_deck(suite.name)))
        else:
            yield f"{file}: is missing"
    if not page.is_file() or page.read_text(encoding="utf-8") != cards_page():
        yield f"{page}: differs from what the cards give"


def _deck_problems(suite: Suite, deck: Deck) -> Iterator[str]:
    if deck.cost_model_version != COST_MODEL_VERSION:
        yield f"made with cost model {deck.cost_model_version}, not {COST_MODEL_VERSION}"
    stored = {card.task: card for card in deck.cards}
    for spec in suite.tasks:
        card = stored.pop(spec.name, None)
        if card is None:
            yield f"{spec.name}: is missing"
        elif card.digest != Task(spec).digest:
            yield f"{spec.name}: the task is another one now"
        elif not admitted(card, suite.admission):
            yield f"{spec.name}: fails the admission test {suite.admission}"
    yield from (f"{name}: is no task of the suite" for name in stored)


def cards_page() -> str:
    """Return the page of all stored cards of built-in suites."""
    suites = [suite for suite in built_in([]) if deck_file(suite.name).is_file()]
    return INTRODUCTION + "".join(suite_section(suite, read_deck(suite.name)) for suite in suites)


def suite_section(suite: Suite, deck: Deck) -> str:
    """Return a suite's heading, description and table; tasks without a card are left out."""
    about = f"{suite.description} {suite.seeds} seeds, budget {suite.budget}. {ADMISSION[suite.admission]}"
    known = {card.task: card for card in deck.cards}
    shown = [spec for spec in suite.tasks if spec.name in known]
    lines = [_line(known[spec.name], spec.why, suite.admission) for spec in shown]
    factors = [known[spec.name].over_co_located for spec in shown]
    columns: tuple[str, ...] = COLUMNS
    if any(factors):
        columns = (*COLUMNS, OVER_CO_LOCATED)
        lines = [[*line, f"{factor:.2f}" if factor else NONE] for line, factor in zip(lines, factors, strict=True)]
    return f"\n## {suite.name}\n\n{markdown_text(about)}\n\n{markdown_table(columns, lines)}"


def _line(card: Card, why: str, test: str | None) -> list[str]:
    return [
        f"**{markdown_text(card.task)}**<br>{markdown_text(why)}",
        f"10^{card.log10_size:.1f}, {card.degrees:,} degrees",
        _percent(card.legal),
        _percent(card.fits),
        _percent(card.feasible),
        f"{card.goodput_per_npu:.4g}{'' if card.certified else ' (bound)'}",
        card.optimum,
        markdown_text(card.unlike_megatron),
        NONE if card.over_megatron is None else f"{card.over_megatron:.2f}",
        f"{card.random:.2f}",
        f"{card.evolution:.2f}",
        ", ".join(NONE if count is None else f"{count:,}" for count in card.recipes),
        NONE if test is None else "yes" if admitted(card, test) else "no",
        _spread(card.moved),
        _spread(card.megatron),
        _spread(card.replayed),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _spread(spread: Spread) -> str:
    return f"{spread.least:.2f}–{spread.most:.2f}"


MEANINGS = {
    "Size": "legal, distinct strategies, and valid degrees",
    "Legal": "share of legal strategies among uniform vectors over all choices",
    "Fits, Feasible": f"share of {cards.SAMPLES:,} random legal strategies that fit the memory; that meet the limits",
    "Optimum": "goodput of the certified optimum in tokens/s and NPU",
    "at, unlike Megatron": "its degrees, and which operators it splits otherwise than Megatron's pattern on the whole "
    "group; a letter for each of x and y where there are two axes",
    "÷ Megatron": "optimum ÷ the best strategy of Megatron's pattern at any degrees; – where none is feasible",
    "Random, GA": "share of the optimum that random search and the genetic algorithm reach in "
    f"{cards.SEARCH:,} evaluations, median of {len(cards.SEEDS)} seeds",
    "Recipes": "evaluations in which the agent `recipes` reaches 95 % and 99 % of the optimum; "
    f"– where it doesn't in {cards.RECIPES:,}",
    "Admitted": "whether the task passes the suite's test",
    "Optimum moves": f"over instances 1 to {cards.INSTANCES}, whose constants are drawn within their errors: "
    "the least and the most of the instance's optimum ÷ the nominal one",
    "Megatron, Replayed": "the same of the best of Megatron's pattern, and of the nominal optimum, "
    "÷ the instance's optimum",
    OVER_CO_LOCATED: "optimum ÷ that of co-located serving of the same workload on the same devices",
}

INTRODUCTION = f"""# Suites and the cards of their tasks

`lts-bench cards --all` measures every task and writes this page; `lts-bench cards --all --check` tells whether it is up
to date.

## How to read a card

{markdown_table(("Column", "What it says"), MEANINGS.items())}
A task passes *core* if the optimum is at least {cards.LEAST_OVER_MEGATRON} × the best of Megatron's pattern, or the
median of random search at most {cards.MOST_RANDOM} of the optimum; *hard* if also the genetic algorithm reaches at most
{cards.MOST_EVOLUTION}. Suites without a test say what they are for.

## Generated suites

`train` (1,000 tasks) and `test` (200) are drawn from fixed seeds and are used as any suite; they have no cards. A task
is known by its name, as `lts_bench.load_task("llama-3.1-70b/h100x8/train-00112")`. Families of models and kinds of
networks differ between `train`, `test` and `heldout`, which is drawn at verification with a salt that nobody knows
before:

```sh
lts-bench generate heldout --salt 7f3a --tasks 3 --out heldout.yaml
```

More tasks to train on, without end:

```python
import itertools
from lts_bench.generate import solvable_tasks

tasks = list(itertools.islice(solvable_tasks("train", start=1000), 2))
```

Each of these tasks has a feasible strategy: limits are drawn again until one is found.
"""
