"""Commands that write boards and pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lts_bench.commands.options import AsJson, Directories, Workers, cores
from lts_bench.specs.failure import InputError

if TYPE_CHECKING:
    from lts_bench.report.leaderboard import Board


def report(
    directories: Directories = None,
    out: Annotated[Path, typer.Option(help="Where boards go.")] = Path("results/boards"),
    site: Annotated[
        Path | None, typer.Option(metavar="SITE", help="Also write a static site to this directory.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Also fill the blocks of boards in this page.")
    ] = None,
    suite: Annotated[list[str] | None, typer.Option(help="Only this suite; repeatable (default: all).")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; compare with what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build tables, plots and a site from results, or check that committed ones are what the results give."""
    from lts_bench.console import print_boards, print_json, print_notes, progress_bar
    from lts_bench.report.board import board_document, boards, differences, write_board
    from lts_bench.report.embed import filled_page, page_differences
    from lts_bench.results.levels import read_levels
    from lts_bench.results.store import read_store, write_output

    if check and site:
        raise InputError("a site is not checked: leave out --check, or --site", field="--site", value=str(site))
    paths = directories or [Path("runs")]
    stored = read_store(paths)
    found = boards(stored, read_levels(paths), suite)
    wrong = _missing(found)
    if check:
        wrong += [line for board in found for line in differences(board, out)]
        wrong += page_differences(found, page) if page else []
    else:
        wrong += _failed(found)
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


def _missing(boards: list[Board]) -> list[str]:
    entries = [(board.grid.name, entry) for board in boards for entry in board.entries if entry.missing]
    return [f"{suite}: {entry.agent}: {entry.missing} of {entry.cells} cells are missing" for suite, entry in entries]


def _failed(boards: list[Board]) -> list[str]:
    counts = [(board.grid.name, entry.agent, each) for board in boards for entry in board.entries
              for each in sorted(entry.statuses.items())]  # fmt: skip
    return [f"{suite}: {agent}: {count} {status}" for suite, agent, (status, count) in counts if status != "ok"]


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


def cards(
    suites: Annotated[list[str] | None, typer.Argument(metavar="[SUITE]...", help="Built-in suites.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All built-in suites but the generated ones.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE.md", help="The page of all cards.")] = Path("docs/suites.md"),
    check: Annotated[
        bool, typer.Option("--check", help="Measure and write nothing; tell which cards are missing or stale.")
    ] = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Measure the tasks of suites: how large, how tight, how far from Megatron's pattern and from simple searches.

    Without a suite nothing is measured: the page is written anew from the cards there are.
    """
    from lts_bench.console import print_json, print_notes, progress_bar
    from lts_bench.report.cards_page import built_in, cards_page, make_decks, problems, write_decks
    from lts_bench.results.store import write_output

    if suites and everything:
        raise InputError("name suites, or --all", field="suite", value=suites)
    chosen = built_in(suites or [])
    if not check:
        if suites or everything:
            with progress_bar() as progress:
                write_decks(make_decks(chosen, workers or cores(), progress))
        write_output(out, cards_page())
    wrong = list(problems(chosen, out))
    print_notes(wrong)
    if as_json:
        print_json({"suites": [suite.name for suite in chosen], "wrong": wrong})
    raise typer.Exit(1 if wrong else 0)
