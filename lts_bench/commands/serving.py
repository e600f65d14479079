"""Commands on requests, and on what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lts_bench.commands.options import (
    AsJson,
    ClusterRef,
    EngineRef,
    KvPrecision,
    ModelRef,
    Precision,
    RateScale,
    StrategyFile,
)

if TYPE_CHECKING:
    pass


def trace(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Requests: CSV with a header, JSON Lines or a JSON list.")
    ],
    window: Annotated[
        str | None, typer.Option(metavar="START:END", help="Only requests that arrive then, in s from the first.")
    ] = None,
    rate_scale: RateScale = 1.0,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Only requests of this model.")] = None,
    context: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=2, help="Leave out requests of more, prompt and output.")
    ] = None,
    time_unit: Annotated[str | None, typer.Option(help="s, ms, us or ns (default: as the format says).")] = None,
    block_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a block with one hash id (default: as the format says).")
    ] = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Count rows that cannot be read.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write what was read in our own format.")] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a trace of requests: rate, bursts, lengths, shared prefixes."""
    from lts_bench.console import print_fields, print_json
    from lts_bench.serving.read_trace import read_trace
    from lts_bench.serving.trace import parse_window
    from lts_bench.serving.trace_csv import write_trace
    from lts_bench.serving.trace_summary import trace_document

    found = read_trace(
        file,
        time_unit=time_unit,
        model=model,
        block_tokens=block_tokens,
        skip_bad_rows=skip_bad_rows,
        needs_arrivals=False,
    )
    if window is not None:
        found = found.window(*parse_window(window))
    if context is not None:
        found = found.within_context(context)
    found = found.scaled(rate_scale)
    if out is not None:
        write_trace(out, found)
    (print_json if as_json else print_fields)(trace_document(found))


def replay(
    model: ModelRef,
    cluster: ClusterRef,
    strategy: StrategyFile,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="Requests: CSV, JSON Lines or a JSON list.")],
    slo: Annotated[str, typer.Option(metavar="LIMITS", help="ttft_ms=500,tpot_ms=50,percentile=90.")],
    rate_scale: RateScale = 1.0,
    engine: EngineRef = "generic",
    precision: Precision = "config",
    kv_precision: KvPrecision = "config",
    router: Annotated[str, typer.Option(help="round_robin or least_loaded.")] = "round_robin",
    prefix_reuse: Annotated[bool, typer.Option("--prefix-reuse", help="Reuse cached prefixes of prompts.")] = False,
    accepted_tokens: Annotated[float, typer.Option(help="Tokens gained in a decode step, with speculation.")] = 1.0,
    drafted_tokens: Annotated[int, typer.Option(min=0, help="Tokens verified beside the next one.")] = 0,
    price_per_hour: Annotated[float | None, typer.Option(min=0, help="Price of a device.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw latencies and attainment against the rate.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a trace on a strategy: latencies, attainment of the SLOs, the highest rate that attains them."""
    from lts_bench.console import print_fields, print_json, read_strategy
    from lts_bench.report.latency_plot import latency_figure, plot_kind
    from lts_bench.results.store import write_output
    from lts_bench.serving.rate_sweep import rate_sweep
    from lts_bench.serving.read_trace import read_trace
    from lts_bench.serving.replay_document import Options, load_served, replay_document
    from lts_bench.serving.slo import parse_slo

    kind = plot_kind(plot) if plot else ""
    requests = read_trace(trace)
    served, requests = load_served(
        model=model,
        cluster=cluster,
        strategy=read_strategy(strategy),
        trace=requests,
        slo=parse_slo(slo),
        engine=engine,
        precision=precision,
        kv_precision=kv_precision,
        source=str(strategy),
    )
    options = Options(router, prefix_reuse, accepted_tokens, drafted_tokens, price_per_hour)
    document = replay_document(served, requests, options, rate_scale)
    if plot:
        points = rate_sweep(served, requests, options, document["search"]["rate_scale"] or rate_scale)
        write_output(plot, latency_figure(points, served.workload.slo, kind))
    (print_json if as_json else print_fields)(document)


def calibrate(
    table: Annotated[Path, typer.Argument(metavar="TABLE.csv", help="Measured kernels, networks or serving runs.")],
    out: Annotated[Path, typer.Option(metavar="FILE.yaml", help="Where it goes, with refitted constants.")],
    chip: Annotated[str | None, typer.Option(metavar="CHIP", help="A built-in chip or a YAML file.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="CLUSTER", help="A built-in cluster or a YAML file.")] = None,
    engine: Annotated[str | None, typer.Option(metavar="ENGINE", help="A built-in engine or a YAML file.")] = None,
    models: Annotated[Path | None, typer.Option(metavar="DIR", help="With --engine: folder of configs.")] = None,
    only: Annotated[str | None, typer.Option(metavar="PART", help="With --engine: host or requests.")] = None,
    as_json: AsJson = False,
) -> None:
    """Refit the constants of a chip's kernels, a cluster's networks or an engine's host to a table of measurements."""
    from lts_bench.calibrate.commands import Job, refit

    refit(Job(table, out, chip, cluster, engine, models, only), as_json=as_json)
