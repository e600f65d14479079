from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import make_cells, real_grid

from lts_bench.report.board import board_files
from lts_bench.report.leaderboard import make_board
from lts_bench.report.site.paths import LONGEST, SAFE, run_page, slug
from lts_bench.report.site.write import write_site

NASTY = "<img src=x onerror=alert(1)>"
SCORES: dict[str, float | None] = {"good": 0.9, "../bad": 0.5, NASTY: 0.25, "none": None, "megatron_search": 0.6}


class Page(HTMLParser):
    """Elements of a page with their attributes, and links to other files."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def links(self) -> list[str]:
        found = [attrs.get(name) for _, attrs in self.elements for name in ("href", "src")]
        return [link for link in found if link and not link.startswith(("#", "data:"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of made-up rows of real tasks; their rows are of no known cost model, so that no task is built."""
    directory = tmp_path_factory.mktemp("site")
    rows = make_cells(real_grid(), SCORES) + make_cells(real_grid(), {"oracle": 1.0}, track="oracle")
    part = make_cells(real_grid(), {"part": 0.5})[1:]
    board = make_board(real_grid(), rows + part)
    told: list[Any] = []
    write_site(directory, [(board, board_files(board))], lambda *done: told.append(done))
    assert len(told) == 7 * 3
    return directory


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_there_is_a_page_for_each_suite_agent_task_and_run(site: Path, pages: dict[Path, Page]) -> None:
    counts = [len(list((site / folder).rglob("*.html"))) for folder in ("suites", "agents", "tasks", "runs")]
    assert counts == [1, 7, 3, 21]
    assert len(pages) == 1 + sum(counts)


def test_every_link_leads_to_a_file_of_the_site(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links():
            assert ":" not in link, link
            target = (path.parent / unquote(link)).resolve()
            assert target.is_file(), (path, link)
            assert site.resolve() in target.parents


def test_names_are_text_wherever_they_stand(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        assert not any("onerror" in attrs for _, attrs in page.elements)
        assert {attrs["src"] for tag, attrs in page.elements if tag == "script"} <= {
            f"{'../' * depth}board.js" for depth in range(4)
        }


def test_tables_have_captions_and_scopes(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        tags = [tag for tag, _ in page.elements]
        assert tags.count("table") == tags.count("caption"), path
        assert all(attrs.get("scope") in ("col", "row") for tag, attrs in page.elements if tag == "th")
        assert all(attrs.get("alt") for tag, attrs in page.elements if tag == "img")
        assert tags.count("h1") == 1


def test_the_board_tells_ranks_intervals_and_badges(site: Path) -> None:
    text = (site / "index.html").read_text()
    row = re.search(r"<tr>(?:(?!</tr>).)*?>good@1<.*?</tr>", text, re.DOTALL)
    assert row
    for shown in ("0.9000 to 0.9000", "9/9", ">child<", ">1<"):
        assert shown in row[0]
    assert "not ranked" in text
    assert "1 missing" in text


def test_a_row_that_cannot_be_scored_again_has_no_breakdown(site: Path) -> None:
    page = (site / run_page("smoke", "good@1", "llama-3.1-8b/h100x8/chat")).read_text()
    assert "No breakdown: the row is of another task or of cost model 1." in page
    assert "1.500 × megatron_search on the same machine" in page
    assert (
        "No run found a feasible strategy."
        in (site / run_page("smoke", "none@1", "llama-3.1-8b/h100x8/chat")).read_text()
    )


def test_the_same_rows_give_the_same_site(site: Path, tmp_path: Path) -> None:
    rows = make_cells(real_grid(), SCORES) + make_cells(real_grid(), {"oracle": 1.0}, track="oracle")
    board = make_board(real_grid(), (make_cells(real_grid(), {"part": 0.5})[1:] + rows)[::-1])
    write_site(tmp_path, [(board, board_files(board))], lambda *done: None)
    first, second = ({p.relative_to(d): p.read_bytes() for p in d.rglob("*") if p.is_file()} for d in (site, tmp_path))
    assert first == second


@given(st.text(), st.text())
def test_file_names_are_safe_and_tell_names_apart(left: str, right: str) -> None:
    for name in (left, right):
        assert "/" not in slug(name)
        assert slug(name)[0] not in "._"
        assert len(slug(name)) <= LONGEST + 9
        assert SAFE.fullmatch(slug(name))
    assert (slug(left) == slug(right)) == (left == right)


def test_file_names_stay_readable() -> None:
    assert slug("evolution@2") == "evolution@2"
    assert re.fullmatch("llama-3.1-8b_h100x8_chat-[0-9a-f]{8}", slug("llama-3.1-8b/h100x8/chat"))
    assert slug("A") != slug("a")
