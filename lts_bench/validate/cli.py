"""``lts-bench validate …``: the cost model's answers to measured facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Answer measured cases with the cost model.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep subcommands' names even while there is one."""


@app.command()
def sharding(
    cases: Annotated[Path, typer.Argument(metavar="CASES.json", help="Programs on meshes.")],
    out: Annotated[Path, typer.Option(metavar="ANSWERS.json", help="Where the answers go.")],
) -> None:
    """Derive collectives, flops and bytes of sharded programs."""
    from lts_bench.validate.sharding import answers, read_cases, summary, write_answers

    found = answers(read_cases(cases), str(cases))
    write_answers(out, found)
    typer.echo(summary(found))
