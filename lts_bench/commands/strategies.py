"""Commands on strategies: what a model allows, what a strategy reaches, the best there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lts_bench.commands.options import (
    AsJson,
    ClusterRef,
    EngineRef,
    KvPrecision,
    MaybeWorkload,
    ModelRef,
    Precision,
    StrategyFile,
    WorkloadRef,
)

if TYPE_CHECKING:
    pass


def model(
    ref: Annotated[str, typer.Argument(metavar="MODEL", help="A built-in model or a config.json.")],
    as_json: AsJson = False,
) -> None:
    """Tell a model's parameters, state sizes, layers and legal degrees."""
    from lts_bench.console import print_fields, print_json
    from lts_bench.space.report import legal_degrees
    from lts_bench.specs.config import load_model
    from lts_bench.specs.summary import model_summary

    loaded = load_model(ref)
    document = {**model_summary(loaded), "legal": legal_degrees(loaded)}
    (print_json if as_json else print_fields)(document)


def check(
    model: ModelRef,
    cluster: ClusterRef,
    strategy: StrategyFile,
    workload: MaybeWorkload = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a strategy is legal, and tell every rule that it breaks."""
    from lts_bench.assess import check_document
    from lts_bench.console import print_check, print_json, read_strategy
    from lts_bench.specs.cluster import load_cluster
    from lts_bench.specs.config import load_model
    from lts_bench.specs.workload import parse_workload

    served = None if workload is None else parse_workload(workload)
    document = check_document(load_model(model), load_cluster(cluster), read_strategy(strategy), served, str(strategy))
    (print_json if as_json else print_check)(document)
    raise typer.Exit(0 if document["legal"] else 1)


def evaluate(
    model: ModelRef,
    cluster: ClusterRef,
    strategy: StrategyFile,
    workload: WorkloadRef,
    engine: EngineRef = "generic",
    precision: Precision = "config",
    kv_precision: KvPrecision = "config",
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Also intervals, from constants drawn within their errors.")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, help="With --uncertainty: number of draws.")] = 64,
    as_json: AsJson = False,
) -> None:
    """Tell what a strategy reaches: goodput, latencies, memory, and the time of each operator and collective."""
    from lts_bench.assess import evaluate_strategy
    from lts_bench.console import print_evaluation, print_json, read_strategy

    document: dict[str, Any] = evaluate_strategy(
        model=model,
        cluster=cluster,
        workload=workload,
        strategy=read_strategy(strategy),
        engine=engine,
        precision=precision,
        kv_precision=kv_precision,
        uncertainty=draws if uncertainty else 0,
        source=str(strategy),
    )
    (print_json if as_json else print_evaluation)(document)


def optimum(
    suite: Annotated[str | None, typer.Option(help="A built-in suite or a YAML file: all its tasks.")] = None,
    task: Annotated[str | None, typer.Option(help="A task of any built-in suite.")] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="A built-in model or a config.json.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="CLUSTER", help="A built-in cluster or a YAML file.")] = None,
    workload: MaybeWorkload = None,
    engine: EngineRef = "generic",
    precision: Precision = "config",
    kv_precision: KvPrecision = "config",
    serving: Annotated[str, typer.Option(help="co-located, or disaggregated into two pools.")] = "co-located",
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Also how the optimum moves with constants drawn within their errors.")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, help="With --uncertainty: number of draws.")] = 16,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the strategy of a single task as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best strategy there is, with a proof: no strategy of the space has a higher goodput."""
    from lts_bench.console import print_json, print_optima
    from lts_bench.exact.document import find_tasks, optimum_document, write_strategy

    tasks = find_tasks(
        suite=suite, task=task, model=model, cluster=cluster, workload=workload, engine=engine,
        precision=precision, kv_precision=kv_precision, serving=serving,
    )  # fmt: skip
    documents = [optimum_document(each, draws if uncertainty else 0) for each in tasks]
    (print_json if as_json else print_optima)({"tasks": documents})
    if out is not None:
        write_strategy(out, documents)
