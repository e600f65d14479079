"""The page about the claims of "Learning to Shard": tables of what results say, and a sentence for each verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lts_bench.report.cards import unlike_megatron
from lts_bench.report.claims import (
    AGENT,
    MEGATRON,
    METAHEURISTICS,
    OVER_MEGATRON,
    OVER_METAHEURISTICS,
    REFERENCE,
    Duel,
    Evidence,
    ahead,
)
from lts_bench.report.tables import NONE, markdown_table, markdown_text
from lts_bench.space.disaggregated import legal_any
from lts_bench.task import Task

KINDS = ("graded", "flat")

INTRODUCTION = f"""# The claims of "Learning to Shard", tried

arXiv 2509.00217 reports up to {OVER_METAHEURISTICS} × the throughput of metaheuristics and {OVER_MEGATRON} × that of
Megatron's heuristic, for routed models of up to 1.6 trillion parameters on clusters of H100. No code of it is public:
`{AGENT}` is written after the paper, and the suite `claims` asks the same questions. `lts-bench claims results` writes
this page from the results, `--check` tells whether it is up to date.

Agents are compared at equal budgets on the same machines. A score is the share of the certified optimum, and a ratio of
scores is a ratio of throughputs. *Graded* feedback tells by how much a strategy misses memory and limits, *flat*
feedback tells nothing of an infeasible strategy. Intervals at 95 % are paired, over seeds.
"""


def claims_page(evidence: Evidence) -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, *_metaheuristics(evidence), *_megatron(evidence), *_reasons(evidence)])


def _metaheuristics(evidence: Evidence) -> Iterator[str]:
    yield f"## {AGENT} against metaheuristics\n"
    rivals = evidence.rivals(METAHEURISTICS)
    for kind in KINDS:
        duels = [evidence.duel(AGENT, rival, kind) for rival in rivals]
        yield f"### {kind.capitalize()} feedback\n\n{_duels(duels, OVER_METAHEURISTICS)}"
        yield f"{_verdict(duels, OVER_METAHEURISTICS)}\n"


def _duels(duels: Sequence[Duel], factor: float) -> str:
    lines = [
        [
            duel.rival,
            f"{duel.reached(factor)} of {len(duel.ratios)}",
            f"{_ratio(duel.highest[0])} ({markdown_text(duel.highest[1])})",
            _ratio(duel.geometric_mean),
            f"{duel.difference:+.3f} ({duel.interval[0]:+.3f} to {duel.interval[1]:+.3f})",
        ]
        for duel in duels
    ]
    columns = (f"{AGENT} ÷", f"≥ {factor} ×", "highest", "geometric mean where both solve", "difference of scores")
    return markdown_table(columns, lines)


def _ratio(value: float) -> str:
    return NONE if np.isnan(value) else "∞" if np.isinf(value) else f"{value:.2f}"


def _verdict(duels: Sequence[Duel], factor: float) -> str:
    tasks = {task for duel in duels for task, ratio in duel.ratios.items() if ratio >= factor}
    behind = [duel.rival for duel in duels if duel.interval[1] < 0]
    before = [duel.rival for duel in duels if duel.interval[0] > 0]
    level = [duel.rival for duel in duels if duel.rival not in (*behind, *before)]
    found = f"{factor} × is reached against some metaheuristic on {len(tasks)} of {len(duels[0].ratios)} tasks."
    parts = [
        f"{AGENT} is {how} {_listed(names)}."
        for how, names in (("ahead of", before), ("level with", level), ("behind", behind))
        if names
    ]
    return " ".join([found, *parts])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _megatron(evidence: Evidence) -> Iterator[str]:
    yield "## Against Megatron's heuristic\n"
    duels = [evidence.duel(AGENT, rival, "graded") for rival in evidence.rivals(MEGATRON)]
    yield f"{_duels(duels, OVER_MEGATRON)}"
    reference = evidence.scores[REFERENCE].mean(axis=1)
    mine = evidence.scores[AGENT].mean(axis=1)
    lines, best = [], {}
    for place in evidence.at("graded"):
        name, best[place] = evidence.best("search", place)
        own = reference[place]
        factors = [_factor(1.0, own), _factor(mine[place], own), f"{_factor(best[place], own)} (`{name}`)"]
        lines.append([markdown_text(evidence.names[place]), f"{own:.3f}", *factors])
    yield markdown_table(("Task", "megatron_search", "optimum ÷ it", f"{AGENT} ÷ it", "best search agent ÷ it"), lines)
    open_to, used = ahead(evidence, best, OVER_MEGATRON)
    _, by_agent = ahead(evidence, dict(enumerate(mine.tolist())), OVER_MEGATRON)
    yield (
        f"The optimum is at least {OVER_MEGATRON} × `megatron_search` on {open_to} of {len(lines)} tasks; "
        f"{AGENT} is on {by_agent} of these, the best search agent on {used}.\n"
    )


def _factor(score: float, reference: float) -> str:
    return _ratio(np.inf if reference == 0 < score else np.nan if reference == 0 else score / reference)


def _reasons(evidence: Evidence) -> Iterator[str]:
    yield "## What changes\n"
    yield (
        "The best strategy that any agent found, and the operators that it splits otherwise than Megatron's pattern\n"
        "does; a letter for each of x and y where there are two axes.\n"
    )
    lines = []
    for place in evidence.at("graded"):
        row, spec = evidence.best_row(place), evidence.specs[place]
        if row.best is None:
            lines.append([markdown_text(spec.name), NONE, NONE, NONE, NONE])
            continue
        task = Task(spec)
        strategy = legal_any(row.best.strategy, task.model, task.cluster).strategy
        changed = markdown_text(unlike_megatron(task, strategy))
        label = strategy.degrees.label()
        lines.append([markdown_text(spec.name), f"`{row.agent}`", f"{row.score:.3f}", label, changed])
    yield markdown_table(("Task", "Found by", "Score", "Degrees", "Unlike Megatron"), lines)
