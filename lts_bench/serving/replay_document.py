"""``lts-bench replay``: a strategy's replay of a trace as one document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lts_bench.serving.metrics import Tariff, attainment, expenses, load_over_time, summary
from lts_bench.serving.policy import Policy
from lts_bench.serving.pool_replay import Pools, ServedPools, pool_policies, replay_pools
from lts_bench.serving.rate_search import TOLERANCE, highest_scale
from lts_bench.serving.replay import Replayed, Replicas, replay
from lts_bench.serving.step_tables import Served, build_step_times
from lts_bench.serving.trace import Trace
from lts_bench.serving.trace_summary import NO_HASH_IDS
from lts_bench.space.disaggregated import CheckedPools, legal_any
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.quantization import apply_precision
from lts_bench.specs.workload import Slo, Workload

TOO_SHORT = "the SLOs are attained even where all requests arrive at once: the trace is too short for a highest rate"
NO_ROOM = "the model leaves no room for a KV cache: every request is rejected"


@dataclass(frozen=True)
class Options:
    """What the command line may change of an engine's policy.

    Attributes:
        router, prefix_reuse, accepted_tokens, drafted_tokens: as in ``Policy``.
        price_per_hour: of a device.
    """

    router: str = "round_robin"
    prefix_reuse: bool = False
    accepted_tokens: float = 1.0
    drafted_tokens: int = 0
    price_per_hour: float | None = None


def load_served(
    *,
    model: str,
    cluster: str,
    strategy: Any,
    trace: Trace,
    slo: Slo,
    engine: str,
    precision: str,
    kv_precision: str,
    source: str,
) -> tuple[Served | ServedPools, Trace]:
    """A legal strategy that serves the mean request of a trace, and the trace without what the model cannot read.

    Raises:
        InputError: unknown names, or a strategy that is not legal; the line names every broken rule.
    """
    loaded, given = apply_precision(load_model(model), precision, kv_precision), load_cluster(cluster)
    checked = legal_any(strategy, loaded, given, source)
    fitting = trace if loaded.max_context is None else trace.within_context(loaded.max_context)
    isl, osl = (round(float(each.mean())) for each in (fitting.prompt_tokens, fitting.output_tokens))
    workload, profile = Workload(isl, osl, slo), load_engine(engine)
    if isinstance(checked, CheckedPools):
        return ServedPools(loaded, given, profile, workload, checked.strategy), fitting
    return Served(loaded, given, profile, workload, checked.strategy), fitting


def replicas_of(served: Served | ServedPools, trace: Trace, options: Options) -> Replicas | Pools:
    """The replicas of a strategy with step times up to the longest request of a trace."""
    if isinstance(served, Served):
        return _replicas(served, _policy(served, trace, options), trace)
    policies = pool_policies(*(_policy(part, trace, options) for part in served.parts))
    prefill, decode = (_replicas(*each, trace) for each in zip(served.parts, policies, strict=True))
    return Pools(prefill, decode, served.link())


def _policy(served: Served, trace: Trace, options: Options) -> Policy:
    policy = replace(
        Policy.of(served.engine, served.kv_tokens()),
        router=options.router,
        prefix_reuse=options.prefix_reuse,
        accepted_tokens=options.accepted_tokens,
        drafted_tokens=options.drafted_tokens,
    )
    return replace(policy, max_sequences=min(policy.max_sequences, len(trace)))


def _replicas(served: Served, policy: Policy, trace: Trace) -> Replicas:
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    times = build_step_times(served, rows=policy.rows, longest=max(longest, served.engine.max_prefill_tokens))
    degrees = served.strategy.degrees
    return Replicas(times, policy, degrees.replicas, degrees.pp, degrees.dp)


def replayed(trace: Trace, replicas: Replicas | Pools) -> Replayed:
    """Replay a trace on replicas or on two pools of them."""
    return replay_pools(trace, replicas) if isinstance(replicas, Pools) else replay(trace, replicas)


def replay_document(
    served: Served | ServedPools, trace: Trace, options: Options, rate_scale: float = 1.0
) -> dict[str, Any]:
    """Replay a trace at ``rate_scale`` times its rate, and search the highest rate at which the SLOs are attained.

    Returns:
        ``metrics.summary``; ``attained`` (attainment ≥ percentile of the SLO), ``replayed_goodput`` (requests per
        second, None where the trace sets no bound), ``replayed_goodput_per_npu`` (its output tokens per second and
        device), ``search`` {``rate_scale``, ``tolerance``, ``replays``}, ``load`` over time, ``expenses``, ``skipped``
        {reason: requests}, ``notes``.
    """
    slo, replicas = served.workload.slo, replicas_of(served, trace, options)
    target = slo.percentile / 100
    offered = trace.scaled(rate_scale)
    found = replayed(offered, replicas)
    best = highest_scale(lambda scale: attainment(replayed(offered.scaled(scale), replicas), slo) >= target)
    rate = _sustained(offered, best.scale if best.bounded else None)
    devices, output = served.strategy.degrees.devices, float(trace.output_tokens.mean())
    tariff = Tariff(devices, options.price_per_hour, served.cluster.chip.power_w)
    reached = summary(found, slo)
    return {
        **reached,
        "attained": reached["attainment"] >= target,
        "replayed_goodput": rate,
        "replayed_goodput_per_npu": None if rate is None else rate * output / served.cluster.devices,
        "search": {"rate_scale": best.scale * rate_scale, "tolerance": TOLERANCE, "replays": best.evaluations},
        "skipped": dict(trace.skipped),
        "load": load_over_time(found),
        "expenses": expenses(found, tariff),
        "notes": _notes(trace, replicas, bounded=rate is not None),
    }


def _sustained(offered: Trace, scale: float | None) -> float | None:
    """Requests per second at a scale of the offered rate; 0 where the scale is 0, None where there is no rate."""
    if scale == 0:
        return 0.0
    return None if scale is None or offered.requests_per_s is None else scale * offered.requests_per_s


def _notes(trace: Trace, replicas: Replicas | Pools, *, bounded: bool) -> list[str]:
    notes = [*trace.warnings]
    parts = (replicas.prefill, replicas.decode) if isinstance(replicas, Pools) else (replicas,)
    if not all(part.policy.kv_blocks for part in parts):
        notes.append(NO_ROOM)
    if parts[0].policy.prefix_reuse and trace.blocks is None:
        notes.append(NO_HASH_IDS)
    if not bounded:
        notes.append(TOO_SHORT)
    return notes
