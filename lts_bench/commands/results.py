"""Commands on results: run agents, check what they reached, hand it in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lts_bench.commands.options import AsJson, Directories, Isolation, Workers, cores

if TYPE_CHECKING:
    from lts_bench.harness.session import Session


def run(
    suite: Annotated[str, typer.Option(help="A built-in suite or a YAML file.")],
    agent: Annotated[
        list[str] | None, typer.Option(help="A name, or FILE.py:CLASS; repeatable (default: the suite's).")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds (default: the suite's).")] = None,
    budget: Annotated[str | None, typer.Option(help="e50, e100, e1k or e10k (default: the suite's).")] = None,
    workers: Workers = None,
    executor: Annotated[str, typer.Option(help="Where cells run: local, or ray for a Ray cluster.")] = "local",
    isolation: Isolation = "child",
    shard: Annotated[str, typer.Option(metavar="I/N", help="Run the i-th of n parts.")] = "1/1",
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Keep finished cells, run the others.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Resume, and run cells again that crashed or were stopped.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run agents × tasks × seeds of a suite, then print the leaderboard."""
    from lts_bench.console import progress_bar
    from lts_bench.harness.cells import parse_shard
    from lts_bench.harness.execute import WorkerLost
    from lts_bench.harness.session import Options, overridden, run_suite
    from lts_bench.specs.suite import load_suite

    options = Options(
        out=out,
        workers=workers or cores(),
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


def verify(
    directories: Directories = None,
    rerun: Annotated[float, typer.Option(min=0, max=1, help="Run this share of the cells again.")] = 0.0,
    heldout: Annotated[int, typer.Option(min=0, help="Run the agents on so many held-out tasks.")] = 0,
    audit: Annotated[bool, typer.Option("--audit", help="Put the agents to the audits.")] = False,
    salt: Annotated[
        str | None, typer.Option(help="Decides which cells and tasks; unknown to submitters (default: drawn now).")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="FILE.py:CLASS of an agent that no card tells; repeatable.")
    ] = None,
    isolation: Isolation = "child",
    workers: Workers = None,
    record: Annotated[
        Path | None, typer.Option(metavar="levels.yaml", help="Add the level of each agent, for badges.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check results: well-formed, complete, every stored strategy scored again; on demand, agents run again."""
    import secrets

    from lts_bench.console import print_json, print_notes, progress_bar
    from lts_bench.harness.execute import worker_pool
    from lts_bench.harness.reverify import verify_by_running
    from lts_bench.harness.rig import Demand
    from lts_bench.results.levels import reached, record_levels
    from lts_bench.results.verification import verification_document, verification_lines
    from lts_bench.results.verification import verify as check_results

    paths = directories or [Path("runs")]
    with worker_pool(workers or cores()) as pool:
        found = check_results(paths, pool.map)
    demand = Demand(
        rerun=rerun,
        heldout=heldout,
        audit=audit,
        salt=salt or secrets.token_hex(8),
        isolation=isolation,
        workers=workers or cores(),
        agents=tuple(agent or ()),
    )
    if demand.runs_agents:
        print_notes([f"salt: {demand.salt}"])
        with progress_bar() as progress:
            found += verify_by_running(paths, demand, progress)
    if record:
        record_levels(record, reached(paths, found, demand.levels))
    document = verification_document(found)
    if as_json:
        print_json(document)
    else:
        print("\n".join(verification_lines(document)))
    raise typer.Exit(1 if document["failed"] else 0)


def rescore(
    directories: Directories = None,
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
