"""Writes a site: pages from templates, the figures and tables of boards, drawings of strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lts_bench.report.leaderboard import Board
from lts_bench.report.site.overview import board_table, suite_context
from lts_bench.report.site.paths import agent_page, drawing_file, figure_file, run_page, suite_page, task_page
from lts_bench.report.site.runs import Run, run_context, run_detail
from lts_bench.report.site.subjects import agent_context, task_context
from lts_bench.results.store import write_output

Progress = Callable[[int, int, str], None]
ASSETS = ("style.css", "board.js")

Files = Mapping[str, bytes]
"""A board's tables and figures by name."""


def write_site(directory: Path, boards: Sequence[tuple[Board, Files]], progress: Progress) -> None:
    """Write a site that opens from the file system.

    Args:
        directory: the site's root; pages of an earlier site are overwritten, others stay.
        boards: with the files of each.
        progress: told of each page of runs, as these take the longest.

    Raises:
        InputError: a file cannot be written.
    """
    for path, content in _pages(boards, progress):
        write_output(directory / path, content)


def _pages(boards: Sequence[tuple[Board, Files]], progress: Progress) -> Iterator[tuple[str, str | bytes]]:
    """Yield every file of a site with its content."""
    alone = [board for board, _ in boards]
    folder = resources.files("lts_bench.report.site") / "templates"
    yield from ((name, folder.joinpath(name).read_bytes()) for name in ASSETS)
    table = board_table(alone, "All agents on all suites")
    yield "index.html", _page("index.html", "index.html", title="Leaderboards", boards=alone, table=table)
    for board, files in boards:
        name = board.grid.name
        yield from ((figure_file(name, file), data) for file, data in files.items())
        yield _suite(board, list(files))
        for task in sorted(board.grid.tasks):
            path = task_page(name, task)
            yield path, _page("tables.html", path, **task_context(board, task))
    for agent in sorted({agent for board in alone for _, agent in board.cells}):
        yield agent_page(agent), _page("agent.html", agent_page(agent), **agent_context(alone, agent))
    yield from _run_pages(alone, progress)


def _suite(board: Board, files: Sequence[str]) -> tuple[str, str]:
    path = suite_page(board.grid.name)
    return path, _page("suite.html", path, **suite_context(board, files))


def _run_pages(boards: Sequence[Board], progress: Progress) -> Iterator[tuple[str, str | bytes]]:
    """Yield pages task by task, as those of one share its tables."""
    runs = [Run(board, *key, task) for board in boards for task in sorted(board.grid.tasks) for key in board.cells]
    for done, run in enumerate(runs, start=1):
        suite = run.board.grid.name
        spec = next((spec for spec in run.board.grid.specs if spec.name == run.task), None)
        detail, path = run_detail(run, spec), run_page(suite, run.agent, run.task)
        drawings = {pool: drawing_file(suite, run.agent, run.task, pool) for pool in detail.drawings}
        yield from ((drawings[pool], data) for pool, data in detail.drawings.items())
        yield path, _page("run.html", path, **run_context(run), detail=detail, drawings=drawings)
        progress(done, len(runs), run.task)


@cache
def _environment() -> Environment:
    loader = PackageLoader("lts_bench.report.site")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _page(template: str, path: str, **context: Any) -> str:
    """Render a page; ``root`` leads from it to the site's root."""
    root = "../" * path.count("/")
    links = {"suite_page": suite_page, "agent_page": agent_page, "task_page": task_page}
    return _environment().get_template(template).render(root=root, **links, **context)
