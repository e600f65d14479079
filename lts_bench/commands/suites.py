"""Commands on suites: what there is, drawn tasks, certified optima."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lts_bench.commands.options import AsJson, Workers, cores
from lts_bench.specs.failure import InputError

if TYPE_CHECKING:
    pass


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


def generate(
    split: Annotated[str, typer.Argument(metavar="SPLIT", help="train, test or heldout.")],
    tasks: Annotated[int | None, typer.Option(min=1, help="How many (default: as many as the built-in suite).")] = None,
    salt: Annotated[str, typer.Option(help="Makes another sequence of tasks; heldout needs one.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Where the suite goes (default: train and test are renewed)."),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Draw tasks that have a feasible strategy, as a suite."""
    from lts_bench.console import print_json, print_notes, progress_bar
    from lts_bench.generate import count_redraws, write_redraws, write_suite
    from lts_bench.specs.generated import split_of

    wanted = tasks or split_of(split).tasks or 100
    if out is None and (salt or wanted != split_of(split).tasks):
        raise InputError("must be given: this is no built-in suite", field="--out")
    with progress_bar() as progress:
        counts = count_redraws(split, wanted, salt, workers or cores(), progress)
    if out is None:
        write_redraws(split, counts)
    else:
        write_suite(out, split, counts, salt)
    if as_json:
        print_json({"split": split, "tasks": wanted, "redrawn": sum(map(bool, counts)), "out": out and str(out)})
    else:
        print_notes([f"{split}: {wanted} tasks, {sum(map(bool, counts))} of them drawn again"])


def certify(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A built-in suite or a YAML file.")],
    instances: Annotated[
        int | None, typer.Option(min=0, help="Instances beside the nominal one (default: the suite's seeds).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the file goes (default: beside the built-in suites).")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; compare with what is there.")] = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Find the best strategy of every instance of a suite's tasks, with a proof, and store it."""
    import time

    from lts_bench.console import print_json, print_notes, print_rows, progress_bar
    from lts_bench.harness.certify import Options, certify_suite
    from lts_bench.harness.execute import WorkerLost

    started = time.perf_counter()
    try:
        with progress_bar() as progress:
            document = certify_suite(Options(suite, instances, out, workers or cores(), check), progress)
    except WorkerLost as lost:
        print(f"error: {lost}", file=sys.stderr)
        raise typer.Exit(1) from None
    print_notes([*document["differences"], f"{document['file']}: {time.perf_counter() - started:.1f} s"])
    if as_json:
        print_json(document)
    else:
        print_rows(document["certificates"])
    raise typer.Exit(1 if document["differences"] else 0)
