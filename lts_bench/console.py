"""What commands show: tables for people and JSON on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lts_bench.quantities import shown
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


def _print_table(header: Sequence[str], lines: Iterable[Sequence[str]], title: str | None = None) -> None:
    if title:
        _print_lines([title])
    table = Table(box=None, pad_edge=False, show_header=any(header))
    for name in header:
        table.add_column(name, overflow="fold", justify="right" if name.endswith("_us") else "left")
    for line in lines:
        # Text, not str: names of strangers are no markup.
        table.add_row(*map(Text, line))
    _console().print(table)


def print_rows(lines: Sequence[Mapping[str, Any]], hidden: Collection[str] = ()) -> None:
    """Print mappings with the same keys as a table, less the hidden columns and those without any value."""
    keys = [key for key in (lines[0] if lines else ()) if key not in hidden]
    header = [key for key in keys if any(line[key] not in (None, "", []) for line in lines)]
    _print_table(header, [[shown(key, line[key]) if line[key] is not None else "" for key in header] for line in lines])


def print_boards(boards: Iterable[Board]) -> None:
    """Print leaderboards, a table per track."""
    from lts_bench.report.leaderboard import TRACKS
    from lts_bench.report.tables import TITLES, leaderboard_cells

    tables = [
        (f"{board.grid.name}, budget {board.grid.budget}, track {track}", lines)
        for board in boards
        for track in TRACKS
        if (lines := [leaderboard_cells(entry) for entry in board.entries if entry.track == track])
    ]
    for index, (title, lines) in enumerate(tables):
        if index:
            print()
        _print_table(TITLES, lines, title=title)


def failed_rows(rows: Iterable[Row]) -> list[str]:
    """Return a line for each row that is not ok."""
    return [f"{row.task}: {row.label} seed {row.seed}: {row.status}: {row.error}" for row in rows if row.status != "ok"]


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Give a function that shows what is done of how much, and what came last, on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[last]}", markup=False))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        steps = bar.add_task("steps", total=None, last="starting")

        def show(done: int, total: int, last: str) -> None:
            bar.update(steps, completed=done, total=total, last=last if done < total else "")

        try:
            yield show
        except InputError:
            # Nothing ran: the line that tells why shall stand alone.
            bar.live.transient = bar.disable = True
            raise


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


def print_fields(document: Mapping[str, Any]) -> None:
    """Print a document's fields, those inside others flattened, then its warnings."""
    warnings = document.get("warnings", [])
    _print_table(("", ""), _flat({key: value for key, value in document.items() if key != "warnings"}))
    _print_lines(f"warning: {warning}" for warning in warnings)


def print_check(document: Mapping[str, Any]) -> None:
    """Print what is wrong with a strategy."""
    broken = document["violations"]
    legal = "legal, but not feasible" if broken else "legal"
    _print_lines([legal if document["legal"] else "not legal"])
    _print_problems(document)


def print_evaluation(document: Mapping[str, Any]) -> None:
    """Print what a strategy reaches: the headline, the strategy, what is wrong, intervals, where its time goes."""
    apart = ("strategy", "violations", "warnings", "uncertainty", "operators", "collectives")
    headline = {key: value for key, value in document.items() if key not in apart}
    _print_table(("", ""), [*_flat(headline), *_strategy_lines(document["strategy"])])
    _print_problems(document)
    if "uncertainty" in document:
        print()
        _print_uncertainty(document["uncertainty"])
    for key in ("operators", "collectives"):
        if lines := document.get(key):
            print()
            _print_times(key, lines)


def print_optima(document: Mapping[str, Any]) -> None:
    """Print certified optima: one in full, several in a line each."""
    tasks = document["tasks"]
    if len(tasks) > 1:
        shown_keys = ("task", "goodput_per_npu", "certified", "over_megatron_search", "batch", "ttft_ms", "tpot_ms")
        print_rows([{key: task[key] for key in (*shown_keys, "seconds")} for task in tasks])
        return
    apart = ("strategy", "uncertainty")
    headline = {key: value for key, value in tasks[0].items() if key not in apart}
    strategy = tasks[0]["strategy"]
    _print_table(("", ""), [*_flat(headline), *(_strategy_lines(strategy) if strategy else ())])
    if "uncertainty" in tasks[0]:
        print()
        _print_uncertainty({key: value for key, value in tasks[0]["uncertainty"].items() if key != "winning_degrees"})
        print()
        winners = tasks[0]["uncertainty"]["winning_degrees"]
        lines = [(label, f"{100 * share:.0f} %") for label, share in winners.items()]
        _print_table(("degrees of the optimum", "draws"), lines)


def _print_uncertainty(spread: Mapping[str, Any]) -> None:
    """Print the median and the interval of every figure."""
    figures = {name: value for name, value in spread.items() if isinstance(value, Mapping)}
    lines = [[name, *(shown(name, value[key]) for key in ("median", "p5", "p95"))] for name, value in figures.items()]
    title = f"over {spread['draws']} draws of the constants within their errors, feasible in"
    _print_table(("", "median", "5 %", "95 %"), lines, title=f"{title} {100 * spread['feasible_share']:.0f} %")


def _print_problems(document: Mapping[str, Any]) -> None:
    _print_lines(f"{violation['class']}: {violation['message']}" for violation in document["violations"])
    _print_lines(f"warning: {warning}" for warning in document["warnings"])


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        _console().print(Text(line))


def _strategy_lines(strategy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a strategy, pool by pool where there are two."""
    if "sharding" in strategy:
        return _part_lines(strategy)
    return [(f"{pool}.{name}", text) for pool, part in strategy.items() for name, text in _part_lines(part)]


def _part_lines(strategy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the degrees in one line and the splits in a line a layer kind, letters of an unused x axis left out."""
    degrees = {key: value for key, value in strategy.items() if key != "sharding"}
    words = [f"{key}={'x'.join(map(str, value)) if key == 'tp' and isinstance(value, list) else value}"
             for key, value in degrees.items()]  # fmt: skip
    kinds: dict[str, list[str]] = {}
    for key, letters in strategy["sharding"].items():
        kind, dot, operator = key.partition(".")
        used = letters if isinstance(strategy["tp"], list) else letters[-1:]
        kinds.setdefault(f"sharding.{kind}" if dot else "sharding", []).append(f"{operator or kind}={','.join(used)}")
    return [("strategy", " ".join(words)), *((name, " ".join(splits)) for name, splits in kinds.items())]


def _print_times(title: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Print times of one layer in µs; the title adds them up over the whole model."""
    phases = ("prefill_us", "decode_us")
    sums = [
        f"{key.removesuffix('_us')} {sum(line['count'] * line[key] for line in lines) / 1e3:.4g} ms" for key in phases
    ]
    header = list(lines[0])
    rows = [[f"{line[key]:,.1f}" if key in phases else shown(key, line[key]) for key in header] for line in lines]
    _print_table(header, rows, title=f"{title} of one layer; times count: {', '.join(sums)}")


def _flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += _flat(value, f"{prefix}{key}.")
        else:
            lines.append((f"{prefix}{key}", shown(f"{prefix}{key}", value)))
    return lines
