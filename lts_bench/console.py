"""What commands show: tables for people and JSON on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lts_bench.specs.failure import InputError

if TYPE_CHECKING:
    from lts_bench.report.leaderboard import Board
    from lts_bench.results.schema import Row

WIDTH_OF_PIPES = 200


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_notes(lines: Iterable[str]) -> None:
    """Print remarks on stderr, a line each."""
    for line in lines:
        print(line, file=sys.stderr)


def _console() -> Console:
    """Return a console whose tables are not squeezed when nobody looks at them."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_PIPES)


def _print_table(header: Sequence[str], lines: Iterable[Sequence[object]], title: str | None = None) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=any(header))
    for name in header:
        table.add_column(name, overflow="fold")
    for line in lines:
        # Text, not str: names of strangers are no markup.
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in line))
    _console().print(table)


def print_rows(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of mappings that have the same keys."""
    header = list(lines[0]) if lines else []
    _print_table(header, [[_short(line[key]) for key in header] for line in lines])


def print_boards(boards: Iterable[Board]) -> None:
    """Print leaderboards, a table per track."""
    from lts_bench.report.leaderboard import TRACKS
    from lts_bench.report.tables import TITLES, leaderboard_cells

    for board in boards:
        for track in TRACKS:
            lines = [leaderboard_cells(entry) for entry in board.entries if entry.track == track]
            if lines:
                _print_table(TITLES, lines, title=f"{board.grid.name}, budget {board.grid.budget}, track {track}")


def failed_rows(rows: Iterable[Row]) -> list[str]:
    """Return a line for each row that is not ok."""
    return [
        f"{row.task}: {row.agent}@{row.version} seed {row.seed}: {row.status}: {row.error}"
        for row in rows
        if row.status != "ok"
    ]


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, Row | None], None]]:
    """Give a function that shows how many cells are finished, on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[last]}", markup=False))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        cells = bar.add_task("cells", total=None, last="starting")

        def show(done: int, total: int, row: Row | None) -> None:
            last = f"{row.agent}@{row.version} {row.task} seed {row.seed}: {row.status}" if row else ""
            bar.update(cells, completed=done, total=total, last=last)

        yield show


def read_strategy(path: Path) -> Any:
    """Read a strategy's JSON document.

    Raises:
        InputError: no such file, or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except ValueError as error:
        raise InputError(f"not a JSON document: {error}", source=str(path)) from None


def print_model(document: Mapping[str, Any]) -> None:
    """Print a model's summary."""
    _print_table(("", ""), _flat(document))


def print_check(document: Mapping[str, Any]) -> None:
    """Print what is wrong with a strategy."""
    _console().print("legal" if document["legal"] else "not legal")
    for violation in document["violations"]:
        _console().print(Text(f"{violation['class']}: {violation['message']}"))
    for warning in document["warnings"]:
        _console().print(Text(f"warning: {warning}"))


def print_evaluation(document: Mapping[str, Any]) -> None:
    """Print what a strategy reaches: the headline first, then every table of times."""
    tables = {key: value for key, value in document.items() if isinstance(value, list)}
    headline = {key: value for key, value in document.items() if key not in tables}
    _print_table(("", ""), _flat(headline))
    for title, lines in tables.items():
        if lines and isinstance(lines[0], dict):
            header = list(lines[0])
            _print_table(header, [[_short(line.get(key)) for key in header] for line in lines], title=title)
        elif lines:
            _print_table((title,), [[_short(line)] for line in lines])


def _flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += _flat(value, f"{prefix}{key}.")
        else:
            lines.append((f"{prefix}{key}", _short(value)))
    return lines


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_short, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else "" if value is None else str(value)
