"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from lts_bench.commands import boards, results, serving, strategies, suites
from lts_bench.specs.failure import InputError
from lts_bench.validate.cli import app as validate

BAD_INPUT = 2
COMMANDS: dict[str, Callable[..., None]] = {
    "run": results.run,
    "report": boards.report,
    "claims": boards.claims,
    "verify": results.verify,
    "rescore": results.rescore,
    "submit": results.submit,
    "check-agent": results.check_agent,
    "certify": suites.certify,
    "cards": boards.cards,
    "generate": suites.generate,
    "list": suites.list_,
    "model": strategies.model,
    "check": strategies.check,
    "evaluate": strategies.evaluate,
    "optimum": strategies.optimum,
    "trace": serving.trace,
    "replay": serving.replay,
    "calibrate": serving.calibrate,
}

app = typer.Typer(
    name="lts-bench",
    help="Measure how well agents find parallelisation strategies for LLM inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(validate, name="validate")
for name, command in COMMANDS.items():
    app.command(name)(command)


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
