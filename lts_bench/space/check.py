"""The one validator: every rule that a strategy breaks, with its class and the legal values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lts_bench.space.operators import Operator
from lts_bench.space.placement import placeable_stages
from lts_bench.space.rules import Breach, OperatorRules, axis_sizes, divisors, experts_of, nests
from lts_bench.space.strategy import Degrees, Draft, Strategy, complete_sharding, even_stages, parse_draft
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.failure import Failure, InputError, Violation
from lts_bench.specs.model import Model


@dataclass(frozen=True)
class Checked:
    """A strategy with all that is wrong with it; legal where ``violations`` is empty."""

    strategy: Strategy
    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]


def _violation(failure: Failure, rule: str, field: str, value: Any, legal: tuple[Any, ...], why: str) -> Violation:
    shown = f"; legal: {', '.join(map(str, legal))}" if legal else ""
    return Violation(failure, rule, field, value, legal, f"{field} {value}: {why}{shown}")


def check_strategy(document: Any, model: Model, cluster: Cluster, source: str | None = None) -> Checked:
    """Read and check a strategy document.

    Raises:
        InputError: where the document is no strategy at all; a strategy that breaks rules is returned with them.
    """
    draft = parse_draft(document, model, source)
    tp, dp, sharding = (draft.tx, draft.ty), draft.dp, draft.sharding
    found: list[Violation] = []
    if tp[1] == 1 < tp[0]:
        tp = (1, tp[0])
        sharding = {key: choice[::-1] for key, choice in sharding.items()}
    if draft.dp_attention is not None:
        tp, dp, wrong = _spread_attention(tp, dp, draft.dp_attention, cluster, source)
        found += wrong
    ep, etp = _expert_degrees(draft, dp * tp[0] * tp[1])
    replicas = draft.replicas or max(placeable_stages(cluster, dp * tp[0] * tp[1]) // draft.pp, 1)
    degrees = Degrees(replicas, draft.pp, dp, *tp, ep, etp)
    rules = OperatorRules(model)
    strategy = Strategy(
        degrees,
        complete_sharding(sharding, rules.operators, *tp),
        even_stages(len(model.layers), draft.pp) if draft.stages is None else draft.stages,
        frozenset(sharding),
        draft.redundant_experts,
        draft.padding,
    )
    found += degree_violations(model, cluster, strategy)
    if not draft.padding:
        found += operator_violations(rules, strategy, cluster)
    return Checked(strategy, tuple(found), idle_warning(cluster, degrees))


def legal_strategy(document: Any, model: Model, cluster: Cluster, source: str | None = None) -> Checked:
    """Read and check a strategy document that must be legal.

    Raises:
        InputError: if it is not; the line names every broken rule.
    """
    checked = check_strategy(document, model, cluster, source)
    require_legal(checked.violations, source)
    return checked


def require_legal(violations: Sequence[Violation], source: str | None) -> None:
    """Accept a strategy without violations.

    Raises:
        InputError: there are some; the line names every one.
    """
    if violations:
        told = "; ".join(f"{each.failure}: {each.message}" for each in violations)
        raise InputError(f"not legal: {told}", source=source)


def _spread_attention(
    axes: tuple[int, int], dp: int, ranks: int, cluster: Cluster, source: str | None
) -> tuple[tuple[int, int], int, list[Violation]]:
    """``tp 8 with dp_attention 8`` is ``tp 1, dp 8`` on the same devices; engines have one axis only.

    Raises:
        InputError: for a group of two axes.
    """
    tx, tp = axes
    if tx > 1:
        message = "cannot stand beside a group of two axes"
        raise InputError(message, source=source, field="dp_attention", value=ranks)
    if tp % ranks:
        rule, why = "tp % dp_attention == 0", f"does not divide tp {tp}"
        legal = divisors(tp, cluster.devices)
        return axes, dp, [_violation(Failure.DIVISIBILITY, rule, "dp_attention", ranks, legal, why)]
    return (1, tp // ranks), dp * ranks, []


def _expert_degrees(draft: Draft, stage: int) -> tuple[int, int]:
    if draft.ep is None and draft.etp is None:
        return 1, stage
    if draft.ep is None:
        return max(stage // (draft.etp or 1), 1), draft.etp or 1
    return draft.ep, draft.etp if draft.etp is not None else max(stage // draft.ep, 1)


def idle_warning(cluster: Cluster, degrees: Degrees) -> tuple[str, ...]:
    """A warning where devices idle: the score still divides by all of them."""
    if degrees.devices >= cluster.devices:
        return ()
    return (f"{degrees.devices} of {cluster.devices} devices are used; the score divides by {cluster.devices}",)


def degree_violations(model: Model, cluster: Cluster, strategy: Strategy) -> Iterator[Violation]:
    """Broken rules about degrees, stages and placement."""
    yield from _placement_violations(cluster, strategy.degrees)
    yield from _stage_violations(model, strategy)
    yield from (_moe_violations(model, cluster, strategy) if model.is_moe else _dense_violations(strategy))


def _placement_violations(cluster: Cluster, degrees: Degrees) -> Iterator[Violation]:
    stages = degrees.replicas * degrees.pp
    most = placeable_stages(cluster, degrees.stage)
    if degrees.devices > cluster.devices:
        rule = f"replicas·pp·dp·tp <= {cluster.devices} devices"
        legal = tuple(range(1, most // degrees.pp + 1)) if most >= degrees.pp else ()
        why = f"pp {degrees.pp}, dp {degrees.dp}, tp {degrees.tp} need {degrees.devices} of {cluster.devices} devices"
        yield _violation(Failure.TOPOLOGY, rule, "replicas", degrees.replicas, legal[-1:], why)
    elif stages > most:
        rule = f"a scale-up domain of {cluster.scale_up.size} holds whole stages"
        why = f"{stages} stages of {degrees.stage} devices do not fit, {most} do"
        yield _violation(Failure.TOPOLOGY, rule, "replicas", degrees.replicas, (most // degrees.pp,), why)


def _stage_violations(model: Model, strategy: Strategy) -> Iterator[Violation]:
    layers, pp, stages = len(model.layers), strategy.degrees.pp, strategy.stages
    if pp > layers:
        why = f"more stages than the model's {layers} layers"
        yield _violation(Failure.DIVISIBILITY, f"pp <= {layers}", "pp", pp, (f"1 to {layers}",), why)
    elif len(stages) != pp or sum(stages) != layers or min(stages) < 1:
        rule = f"{pp} positive layer counts that add up to {layers}"
        why = f"{len(stages)} stages of {sum(stages)} layers"
        yield _violation(Failure.TOPOLOGY, rule, "stages", list(stages), (list(even_stages(layers, pp)),), why)


def _dense_violations(strategy: Strategy) -> Iterator[Violation]:
    degrees = strategy.degrees
    if degrees.dp > 1:
        yield _violation(Failure.TOPOLOGY, "dp == 1 without experts", "dp", degrees.dp, (1,), "use replicas instead")
    if degrees.ep > 1:
        yield _violation(Failure.TOPOLOGY, "ep == 1 without experts", "ep", degrees.ep, (1,), "a dense model")
    if strategy.redundant_experts:
        value = strategy.redundant_experts
        yield _violation(Failure.TOPOLOGY, "no experts", "redundant_experts", value, (0,), "a dense model")


def _moe_violations(model: Model, cluster: Cluster, strategy: Strategy) -> Iterator[Violation]:
    degrees, experts, redundant = strategy.degrees, experts_of(model), strategy.redundant_experts
    slots = experts + redundant
    if degrees.ep * degrees.etp != degrees.stage:
        why = f"ep·etp = {degrees.ep}·{degrees.etp} = {degrees.ep * degrees.etp}, dp·tp = {degrees.stage}"
        legal = tuple(ep for ep in divisors(degrees.stage, cluster.devices) if slots % ep == 0)
        yield _violation(Failure.TOPOLOGY, "ep·etp == dp·tp", "ep", degrees.ep, legal, why)
    elif not nests(degrees.etp, degrees.tx, degrees.ty, degrees.dp):
        why = f"does not nest in tp {degrees.tx}x{degrees.ty}, dp {degrees.dp}"
        sizes = divisors(degrees.stage, cluster.devices)
        legal = tuple(e for e in sizes if nests(e, degrees.tx, degrees.ty, degrees.dp))
        yield _violation(Failure.TOPOLOGY, "etp nests in (tx, ty, dp)", "etp", degrees.etp, legal, why)
    if slots % degrees.ep and not strategy.padding:
        why = f"does not divide {experts} experts" + (f" + {redundant} redundant" if redundant else "")
        legal = divisors(slots, max(cluster.devices, experts))
        yield _violation(Failure.DIVISIBILITY, f"{slots} % ep == 0", "ep", degrees.ep, legal, why)
    if redundant and degrees.ep == 1:
        why = "copies need expert parallelism"
        yield _violation(Failure.TOPOLOGY, "ep > 1", "redundant_experts", redundant, (0,), why)


def operator_violations(rules: OperatorRules, strategy: Strategy, cluster: Cluster) -> Iterator[Violation]:
    """Broken rules about the sharding of operators; what Megatron's pattern filled in is told as a matter of tp."""
    told: set[tuple[str, str]] = set()
    for operator in rules.operators:
        choice = strategy.sharding[operator.key]
        for breach in rules.breaches(operator, choice, axis_sizes(strategy.degrees, operator)):
            violation = _operator_violation(rules, strategy, cluster, operator, breach)
            if (violation.field, violation.rule) not in told:
                told.add((violation.field, violation.rule))
                yield violation


def _operator_violation(
    rules: OperatorRules, strategy: Strategy, cluster: Cluster, operator: Operator, breach: Breach
) -> Violation:
    degrees, extent = strategy.degrees, breach.extent
    what = f"{operator.key}: {extent.name} {extent.size}"
    why = f"{what} cannot be split over {breach.degree} ({breach.rule})"
    if operator.key in strategy.explicit:
        choice = list(strategy.sharding[operator.key])
        legal = tuple(",".join(each) for each in rules.legal_choices(operator, axis_sizes(degrees, operator)))
        return _violation(breach.failure, breach.rule, operator.key, choice, legal, why)
    if operator.axes == 1:
        stage = divisors(degrees.stage, cluster.devices)
        legal_etp = tuple(e for e in stage if not rules.breaches(operator, (operator.megatron,), (e,)))
        return _violation(breach.failure, breach.rule, "etp", degrees.etp, legal_etp, why)
    value = [degrees.tx, degrees.ty] if degrees.tx > 1 else degrees.tp
    return _violation(breach.failure, breach.rule, "tp", value, rules.megatron_tp(cluster.devices), why)
