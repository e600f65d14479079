"""``lts-bench validate …``: the cost model's answers to measured facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lts_bench.commands.options import AsJson, Workers, cores
from lts_bench.specs.failure import InputError

if TYPE_CHECKING:
    from lts_bench.validate.table import Prediction, Row, Table

app = typer.Typer(help="Answer measured cases with the cost model.", no_args_is_help=True)

TableFile = Annotated[Path, typer.Argument(metavar="TABLE.csv", help="Measurements, a row each.")]
OutFile = Annotated[
    Path | None, typer.Option("--out", metavar="PREDICTIONS.csv", help="Where the rows go, with their predictions.")
]
Models = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of config.json files, named as in the table; then built-in models.")
]


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


@app.command()
def kernels(table: TableFile, out: OutFile = None, as_json: AsJson = False) -> None:
    """Predict measured kernels, collectives and expert exchanges."""
    from lts_bench.validate.kernels import predict_kernels
    from lts_bench.validate.table import read_table

    read = read_table(table)
    predictions, columns = predict_kernels(read)
    _answer(read, predictions, columns, out, as_json=as_json)


@app.command()
def serving(table: TableFile, models: Models, out: OutFile = None, as_json: AsJson = False) -> None:
    """Predict TTFT and TPOT of measured serving runs, closed loops of clients."""
    from lts_bench.validate.serving import COLUMNS, predict_serving, summarise_serving
    from lts_bench.validate.table import read_table

    read = read_table(table)
    predictions = predict_serving(read, _folder(models))
    _answer(read, predictions, COLUMNS, out, summarise_serving(read, predictions), as_json=as_json)


@app.command()
def throughput(table: TableFile, models: Models, out: OutFile = None, as_json: AsJson = False) -> None:
    """Predict the measured maximum throughput of saturated engines."""
    from lts_bench.validate.throughput import COLUMNS, predict_row

    _performance(table, models, COLUMNS, predict_row, out, as_json=as_json)


@app.command()
def static(table: TableFile, models: Models, out: OutFile = None, as_json: AsJson = False) -> None:
    """Predict latency and throughput of measured static batches."""
    from lts_bench.validate.static import COLUMNS, predict_row

    _performance(table, models, COLUMNS, predict_row, out, as_json=as_json)


@app.command()
def online(table: TableFile, models: Models, out: OutFile = None, as_json: AsJson = False) -> None:
    """Predict mean TTFT and TPOT of runs under an offered rate, by replaying their requests."""
    from lts_bench.validate.online import COLUMNS, predict_online
    from lts_bench.validate.table import read_table

    read = read_table(table)
    _answer(read, predict_online(read.rows, _folder(models)), COLUMNS, out, as_json=as_json)


@app.command()
def replay(
    suite: Annotated[list[str] | None, typer.Option(help="A suite; all written ones where left out.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="PAGE.md", help="Where the page goes.")] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Replay the optima of suites, and tell how far the closed form is off."""
    from lts_bench.console import print_json, print_rows, progress_bar
    from lts_bench.results.store import write_output
    from lts_bench.specs.suite import list_suites, load_suite
    from lts_bench.validate.agreement_page import compare_suites, document, page

    suites = [load_suite(name) for name in suite or list_suites(generated=False)]
    with progress_bar() as progress:
        rows = compare_suites(suites, workers or cores(), progress)
    if out is not None:
        write_output(out, page(rows))
    told = document(rows)
    if as_json:
        print_json(told)
    else:
        print_rows(told["summary"])


@app.command()
def report(
    data: Annotated[Path, typer.Argument(metavar="DATA_DIR", help="Folder with kernels/*.csv, e2e/ and models/.")],
    out: Annotated[Path, typer.Option(metavar="PAGE.md", help="The page; plots go to a folder of its name.")] = Path(
        "docs/accuracy.md"
    ),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; compare the page with what is there.")] = False,
) -> None:
    """Answer all measured tables and write the accuracy page, or check that it is what they give."""
    from lts_bench.validate.accuracy import differences, write_accuracy

    if not check:
        write_accuracy(data, out)
        return
    lines = differences(data, out)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(1 if lines else 0)


def _performance(
    table: Path,
    models: Path,
    columns: Sequence[str],
    predict: Callable[[Row, Path], Prediction],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from lts_bench.validate.table import predict_each, read_table

    read, folder = read_table(table), _folder(models)
    _answer(read, predict_each(read.rows, lambda row: predict(row, folder)), columns, out, as_json=as_json)


def _folder(models: Path) -> Path:
    if not models.is_dir():
        raise InputError("must be a folder of config.json files", field="models", value=str(models))
    return models


def _answer(
    table: Table,
    predictions: Sequence[Prediction],
    columns: Sequence[str],
    out: Path | None,
    summary: Mapping[str, Any] | None = None,
    *,
    as_json: bool,
) -> None:
    """Write the rows with their predictions and print how well these meet the measurements."""
    from lts_bench.console import print_json
    from lts_bench.validate.show import print_summary
    from lts_bench.validate.table import summarise, write_predictions

    if out is not None:
        write_predictions(out, table, predictions, columns)
    document = summary or summarise(table, predictions, columns)
    (print_json if as_json else print_summary)(document)
