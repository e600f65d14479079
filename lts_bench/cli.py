"""The command line: one thin function a command; what takes long to import is imported inside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lts_bench.specs.failure import InputError
from lts_bench.validate.cli import app as validate

if TYPE_CHECKING:
    from lts_bench.harness.session import Session
    from lts_bench.report.leaderboard import Board

app = typer.Typer(
    name="lts-bench",
    help="Measure how well agents find parallelisation strategies for LLM inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(validate, name="validate")

BAD_INPUT = 2

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
ModelRef = Annotated[str, typer.Option("--model", metavar="MODEL", help="A built-in model or a config.json.")]
ClusterRef = Annotated[str, typer.Option("--cluster", metavar="CLUSTER", help="A built-in cluster or a YAML file.")]
StrategyFile = Annotated[Path, typer.Option("--strategy", metavar="FILE", help="A strategy as JSON.")]
WORKLOAD_HELP = "A YAML or JSON file, or isl=1024,osl=512,ttft_ms=500,tpot_ms=20."


def main() -> None:
    """Run the command line; bad input is one line and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from lts_bench import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def run(
    suite: Annotated[str, typer.Option(help="A built-in suite or a YAML file.")],
    agent: Annotated[
        list[str] | None, typer.Option(help="A name, or FILE.py:CLASS; repeatable (default: the suite's).")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds (default: the suite's).")] = None,
    budget: Annotated[str | None, typer.Option(help="e50, e100, e1k or e10k (default: the suite's).")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one a core).")] = None,
    executor: Annotated[str, typer.Option(help="Where cells run: local, or ray for a Ray cluster.")] = "local",
    isolation: Annotated[str, typer.Option(help="How agents run: child, sealed or in_process.")] = "child",
    shard: Annotated[str, typer.Option(metavar="I/N", help="Run the i-th of n parts.")] = "1/1",
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Keep finished cells, run the others.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Resume, and run cells again that crashed or were stopped.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run agents × tasks × seeds of a suite, then print the leaderboard."""
    import os

    from lts_bench.console import progress_bar
    from lts_bench.harness.cells import parse_shard
    from lts_bench.harness.execute import WorkerLost
    from lts_bench.harness.session import Options, overridden, run_suite
    from lts_bench.specs.suite import load_suite

    options = Options(
        out=out,
        workers=workers or os.cpu_count() or 1,
        isolation=isolation,
        executor=executor,
        shard=parse_shard(shard),
        resume=resume or retry_failed,
        retry_failed=retry_failed,
    )
    plan = overridden(load_suite(suite), agents=agent, seeds=seeds, budget=budget)
    try:
        with progress_bar() as progress:
            session = run_suite(plan, options, progress)
    except WorkerLost as lost:
        print(f"error: {lost}; finished cells are kept, --resume runs the others", file=sys.stderr)
        raise typer.Exit(1) from None
    _show_session(session, out, as_json=as_json)


def _show_session(session: Session, out: Path, *, as_json: bool) -> None:
    from lts_bench.console import failed_rows, print_boards, print_json, print_notes
    from lts_bench.report.board import board_document
    from lts_bench.report.leaderboard import make_board
    from lts_bench.results.store import read_store

    board = make_board(session.grid, read_store([out / session.grid.name]).rows.values())
    failed = failed_rows(session.rows)
    print_notes([*session.notes, *failed, f"results: {out / session.grid.name}"])
    if as_json:
        print_json({"out": str(out), "failed": failed, "cells": len(session.rows), **board_document(board)})
    else:
        print_boards([board])
    raise typer.Exit(1 if failed else 0)


@app.command()
def report(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Results (default: runs).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where boards go.")] = Path("results/boards"),
    site: Annotated[
        Path | None, typer.Option(metavar="SITE", help="Also write a static site to this directory.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Also fill the blocks of boards in this page.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; compare with what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build tables, plots and a site from results, or check that committed ones are what the results give."""
    from lts_bench.console import failed_rows, print_boards, print_json, print_notes, progress_bar
    from lts_bench.report.board import board_document, boards, differences, write_board
    from lts_bench.report.embed import filled_page, page_differences
    from lts_bench.results.store import read_store, write_output

    if check and site:
        raise InputError("a site is not checked: leave out --check, or --site", field="--site", value=str(site))
    stored = read_store(directories or [Path("runs")])
    found = boards(stored)
    wrong = _missing(found)
    if check:
        wrong += [line for board in found for line in differences(board, out)]
        wrong += page_differences(found, page) if page else []
    else:
        wrong += failed_rows(stored.rows.values())
        if page:
            write_output(page, filled_page(found, page))
        files = [write_board(board, out) for board in found]
        if site:
            from lts_bench.report.site.write import write_site

            with progress_bar() as progress:
                write_site(site, list(zip(found, files, strict=True)), progress)
    print_notes([*stored.notes, *wrong])
    if as_json:
        print_json({"out": str(out), "wrong": wrong, "boards": [board_document(board) for board in found]})
    else:
        print_boards(found)
    raise typer.Exit(1 if wrong else 0)


@app.command()
def claims(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Results (default: results).")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE.md", help="The page.")] = Path("docs/claims.md"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; tell whether the page is up to date.")] = False,
) -> None:
    """Hold the claims of "Learning to Shard" against the results of the suite claims, and write the page about them."""
    from lts_bench.console import print_notes
    from lts_bench.report.claims import Evidence
    from lts_bench.report.claims_page import claims_page
    from lts_bench.results.store import read_store, write_output
    from lts_bench.specs.suite import load_suite

    rows = read_store(directories or [Path("results")]).rows.values()
    page = claims_page(Evidence(load_suite("claims"), rows))
    if not check:
        write_output(out, page)
    elif not out.is_file() or out.read_text(encoding="utf-8") != page:
        print_notes([f"{out}: differs from what the results give"])
        raise typer.Exit(1)


@app.command()
def verify(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Results (default: runs).")
    ] = None,
    rerun: Annotated[float, typer.Option(min=0, max=1, help="Run this share of the cells again.")] = 0.0,
    heldout: Annotated[int, typer.Option(min=0, help="Run the agents on so many held-out tasks.")] = 0,
    audit: Annotated[bool, typer.Option("--audit", help="Put the agents to the audits.")] = False,
    salt: Annotated[
        str | None, typer.Option(help="Decides which cells and tasks; unknown to submitters (default: drawn now).")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="FILE.py:CLASS of an agent that no card tells; repeatable.")
    ] = None,
    isolation: Annotated[str, typer.Option(help="How agents run: child, sealed or in_process.")] = "child",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one a core).")] = None,
    as_json: AsJson = False,
) -> None:
    """Check results: well-formed, complete, every stored strategy scored again; on demand, agents run again."""
    import os
    import secrets

    from lts_bench.console import print_json, print_notes, progress_bar
    from lts_bench.harness.reverify import verify_by_running
    from lts_bench.harness.rig import Demand
    from lts_bench.results.verification import verification_document, verification_lines
    from lts_bench.results.verification import verify as check_results

    paths = directories or [Path("runs")]
    found = check_results(paths)
    demand = Demand(
        rerun=rerun,
        heldout=heldout,
        audit=audit,
        salt=salt or secrets.token_hex(8),
        isolation=isolation,
        workers=workers or os.cpu_count() or 1,
        agents=tuple(agent or ()),
    )
    if demand.runs_agents:
        print_notes([f"salt: {demand.salt}"])
        with progress_bar() as progress:
            found += verify_by_running(paths, demand, progress)
    document = verification_document(found)
    if as_json:
        print_json(document)
    else:
        print("\n".join(verification_lines(document)))
    raise typer.Exit(1 if document["failed"] else 0)


@app.command()
def rescore(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Results (default: runs).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Preview boards under the current cost model, from stored strategies, running no agent."""
    from lts_bench.console import print_json, print_notes, print_rows
    from lts_bench.report.rescore import rescore_document, rescore_line
    from lts_bench.results.store import read_store

    stored = read_store(directories or [Path("runs")])
    document = rescore_document(stored)
    print_notes([*stored.notes, *map(rescore_line, document["suites"])])
    if as_json:
        print_json(document)
    else:
        print_rows([{"suite": each["suite"], **agent} for each in document["suites"] for agent in each["agents"]])


@app.command()
def submit(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Results; with --check the folder of a submission.")],
    check: Annotated[bool, typer.Option("--check", help="Check a submission, running nothing of it.")] = False,
    agent: Annotated[
        list[str] | None, typer.Option(help="A name, or FILE.py:CLASS; repeatable (default: all in the results).")
    ] = None,
    card: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="The agent's card (default: that in its folder).")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where folders of submissions lie.")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Make the folder of a submission from results of whole suites, or check one."""
    from lts_bench.console import print_json, print_notes
    from lts_bench.results.submission import Request, submit
    from lts_bench.results.submission_checks import submission_document
    from lts_bench.results.verification import verification_lines

    if check:
        document = submission_document(path)
        lines = verification_lines(document)
    else:
        document = submit(Request(path, out, tuple(agent or ()), card))
        print_notes(document["notes"])
        lines = document["submissions"]
    if as_json:
        print_json(document)
    else:
        print("\n".join(lines))
    raise typer.Exit(1 if document.get("failed") else 0)


@app.command()
def certify(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A built-in suite or a YAML file.")],
    instances: Annotated[
        int | None, typer.Option(min=0, help="Instances beside the nominal one (default: the suite's seeds).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the file goes (default: beside the built-in suites).")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; compare with what is there.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one a core).")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best strategy of every instance of a suite's tasks, with a proof, and store it."""
    import os
    import time

    from lts_bench.console import print_json, print_notes, print_rows, progress_bar
    from lts_bench.harness.certify import Options, certify_suite
    from lts_bench.harness.execute import WorkerLost

    started = time.perf_counter()
    try:
        with progress_bar() as progress:
            document = certify_suite(Options(suite, instances, out, workers or os.cpu_count() or 1, check), progress)
    except WorkerLost as lost:
        print(f"error: {lost}", file=sys.stderr)
        raise typer.Exit(1) from None
    print_notes([*document["differences"], f"{document['file']}: {time.perf_counter() - started:.1f} s"])
    if as_json:
        print_json(document)
    else:
        print_rows(document["certificates"])
    raise typer.Exit(1 if document["differences"] else 0)


def _missing(boards: list[Board]) -> list[str]:
    entries = [(board.grid.name, entry) for board in boards for entry in board.entries if entry.missing]
    return [f"{suite}: {entry.agent}: {entry.missing} of {entry.cells} cells are missing" for suite, entry in entries]


@app.command()
def cards(
    suites: Annotated[list[str] | None, typer.Argument(metavar="[SUITE]...", help="Built-in suites.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All built-in suites but the generated ones.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE.md", help="The page of all cards.")] = Path("docs/suites.md"),
    check: Annotated[
        bool, typer.Option("--check", help="Measure and write nothing; tell which cards are missing or stale.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one a core).")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the tasks of suites: how large, how tight, how far from Megatron's pattern and from simple searches.

    Without a suite nothing is measured: the page is written anew from the cards there are.
    """
    import os

    from lts_bench.console import print_json, print_notes, progress_bar
    from lts_bench.report.cards_page import built_in, cards_page, make_decks, problems, write_decks
    from lts_bench.results.store import write_output

    if suites and everything:
        raise InputError("name suites, or --all", field="suite", value=suites)
    chosen = built_in(suites or [])
    if not check:
        if suites or everything:
            with progress_bar() as progress:
                write_decks(make_decks(chosen, workers or os.cpu_count() or 1, progress))
        write_output(out, cards_page())
    wrong = list(problems(chosen, out))
    print_notes(wrong)
    if as_json:
        print_json({"suites": [suite.name for suite in chosen], "wrong": wrong})
    raise typer.Exit(1 if wrong else 0)


@app.command()
def generate(
    split: Annotated[str, typer.Argument(metavar="SPLIT", help="train, test or heldout.")],
    tasks: Annotated[int | None, typer.Option(min=1, help="How many (default: as many as the built-in suite).")] = None,
    salt: Annotated[str, typer.Option(help="Makes another sequence of tasks; heldout needs one.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Where the suite goes (default: train and test are renewed)."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one a core).")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw tasks that have a feasible strategy, as a suite."""
    import os

    from lts_bench.console import print_json, print_notes, progress_bar
    from lts_bench.generate import count_redraws, write_redraws, write_suite
    from lts_bench.specs.generated import split_of

    wanted = tasks or split_of(split).tasks or 100
    if out is None and (salt or wanted != split_of(split).tasks):
        raise InputError("must be given: this is no built-in suite", field="--out")
    with progress_bar() as progress:
        counts = count_redraws(split, wanted, salt, workers or os.cpu_count() or 1, progress)
    if out is None:
        write_redraws(split, counts)
    else:
        write_suite(out, split, counts, salt)
    if as_json:
        print_json({"split": split, "tasks": wanted, "redrawn": sum(map(bool, counts)), "out": out and str(out)})
    else:
        print_notes([f"{split}: {wanted} tasks, {sum(map(bool, counts))} of them drawn again"])


@app.command(name="list")
def list_(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="suites, tasks, agents, models, chips, clusters or engines.")
    ],
    as_json: AsJson = False,
) -> None:
    """List what there is, importing no agent."""
    from lts_bench.console import print_json, print_rows
    from lts_bench.listing import listing

    lines = listing(kind)
    if as_json:
        print_json({kind: lines})
    else:
        print_rows(lines, hidden=("origin", "path"))


@app.command()
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


@app.command()
def check(
    model: ModelRef,
    cluster: ClusterRef,
    strategy: StrategyFile,
    workload: Annotated[str | None, typer.Option(metavar="WORKLOAD", help=WORKLOAD_HELP)] = None,
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


@app.command()
def evaluate(
    model: ModelRef,
    cluster: ClusterRef,
    strategy: StrategyFile,
    workload: Annotated[str, typer.Option(metavar="WORKLOAD", help=WORKLOAD_HELP)],
    engine: Annotated[str, typer.Option(help="A built-in engine profile or a YAML file.")] = "generic",
    precision: Annotated[str, typer.Option(help="config, bf16, fp8, fp8_block, int8, int4 or fp4.")] = "config",
    kv_precision: Annotated[str, typer.Option(help="config, bf16, fp8, int8 or fp4.")] = "config",
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


@app.command()
def optimum(
    suite: Annotated[str | None, typer.Option(help="A built-in suite or a YAML file: all its tasks.")] = None,
    task: Annotated[str | None, typer.Option(help="A task of any built-in suite.")] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="A built-in model or a config.json.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="CLUSTER", help="A built-in cluster or a YAML file.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="WORKLOAD", help=WORKLOAD_HELP)] = None,
    engine: Annotated[str, typer.Option(help="A built-in engine profile or a YAML file.")] = "generic",
    precision: Annotated[str, typer.Option(help="config, bf16, fp8, fp8_block, int8, int4 or fp4.")] = "config",
    kv_precision: Annotated[str, typer.Option(help="config, bf16, fp8, int8 or fp4.")] = "config",
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


@app.command()
def trace(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Requests: CSV with a header, JSON Lines or a JSON list.")
    ],
    window: Annotated[
        str | None, typer.Option(metavar="START:END", help="Only requests that arrive then, in s from the first.")
    ] = None,
    rate_scale: Annotated[float, typer.Option(help="So many times the rate: times are divided by it.")] = 1.0,
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


@app.command()
def replay(
    model: ModelRef,
    cluster: ClusterRef,
    strategy: StrategyFile,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="Requests: CSV, JSON Lines or a JSON list.")],
    slo: Annotated[str, typer.Option(metavar="LIMITS", help="ttft_ms=500,tpot_ms=50,percentile=90.")],
    rate_scale: Annotated[float, typer.Option(help="So many times the rate: times are divided by it.")] = 1.0,
    engine: Annotated[str, typer.Option(help="A built-in engine profile or a YAML file.")] = "generic",
    precision: Annotated[str, typer.Option(help="config, bf16, fp8, fp8_block, int8, int4 or fp4.")] = "config",
    kv_precision: Annotated[str, typer.Option(help="config, bf16, fp8, int8 or fp4.")] = "config",
    router: Annotated[str, typer.Option(help="round_robin or least_loaded.")] = "round_robin",
    prefix_reuse: Annotated[bool, typer.Option("--prefix-reuse", help="Reuse cached prefixes of prompts.")] = False,
    accepted_tokens: Annotated[float, typer.Option(help="Tokens gained in a decode step, with speculation.")] = 1.0,
    drafted_tokens: Annotated[int, typer.Option(min=0, help="Tokens verified beside the next one.")] = 0,
    price_per_hour: Annotated[float | None, typer.Option(min=0, help="Price of a device.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a trace on a strategy: latencies, attainment of the SLOs, the highest rate that attains them."""
    from lts_bench.console import print_fields, print_json, read_strategy
    from lts_bench.serving.read_trace import read_trace
    from lts_bench.serving.replay_document import Options, load_served, replay_document
    from lts_bench.serving.slo import parse_slo

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
    (print_json if as_json else print_fields)(document)


@app.command()
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


@app.command()
def check_agent(
    ref: Annotated[str, typer.Argument(metavar="REF", help="A name, or FILE.py:CLASS.")],
    task: Annotated[str | None, typer.Option(help="The task to check on (default: the first of smoke).")] = None,
    as_json: AsJson = False,
) -> None:
    """Put an agent to the conformance suite."""
    import contextlib

    from lts_bench import load_task
    from lts_bench.console import print_json, print_rows
    from lts_bench.nominal import nominal_for
    from lts_bench.registry import load_agent
    from lts_bench.specs.suite import load_suite
    from lts_bench.testing import check_agent as run_checks

    # What the agent prints is not this command's answer.
    with contextlib.redirect_stdout(sys.stderr):
        name = task or load_suite("smoke").tasks[0].name
        agent, checked = load_agent(ref), load_task(name)
        results = run_checks(agent, checked, nominal_for(agent.track, checked.spec))
    lines = [result._asdict() for result in results]
    if as_json:
        print_json({"agent": ref, "task": name, "checks": lines})
    else:
        print_rows(lines)
    raise typer.Exit(0 if all(result.passed for result in results) else 1)
