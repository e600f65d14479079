"""Runs what the pages show. `python tests/test_docs.py` writes the outputs anew after a change of the cost model.

In a page, blocks run from top to bottom in one empty directory. A block with ``file=NAME`` behind its language is
written to that file; other ``sh`` and ``python`` blocks are run and must exit with 0, or with N where ``exit=N`` says
so. A ``text`` block behind one shows what it prints on stdout (on stderr where that is empty); a line "…" in it stands
for any lines. A block whose first line is ``# not tested: WHY`` is left alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#]*)(?:#(?P<anchor>[^)]*))?\)")
NOT_TESTED = "# not tested: "


class Block(NamedTuple):
    language: str
    options: dict[str, str]
    body: str
    span: tuple[int, int]


def blocks(text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        language, *words = found["info"].split() or [""]
        options = dict(word.split("=", 1) for word in words)
        lines = [line.removeprefix(found["indent"]) for line in found["body"].splitlines(keepends=True)]
        yield Block(language, options, "".join(lines), found.span("body"))


def run(block: Block, directory: Path) -> str:
    command = ["bash", "-e", "-o", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "COLUMNS": "200"}
    done = subprocess.run(
        [*command, block.body], cwd=directory, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == int(block.options.get("exit", "0")), f"{block.body}\n{done.stdout}\n{done.stderr}"
    return "".join(f"{line.rstrip()}\n" for line in (done.stdout or done.stderr).splitlines())


def outputs(text: str, directory: Path) -> Iterator[tuple[Block, str]]:
    """Run a page's blocks; yield every shown output with the real one."""
    printed: str | None = None
    for block in blocks(text):
        if block.language == "text":
            assert printed is not None, f"nothing was run before:\n{block.body}"
            yield block, printed
        elif "file" in block.options:
            file = directory / block.options["file"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
        elif block.language in ("sh", "python"):
            skipped = block.body.startswith(NOT_TESTED)
            printed = None if skipped else run(block, directory)


def matches(expected: str, printed: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"^…\n", expected, flags=re.MULTILINE)]
    return re.fullmatch("(?s:.*?)".join(parts), printed) is not None


def as_shown(expected: str, printed: str) -> str:
    """Return the real output, cut where the page cuts it: so many lines before and after one "…"."""
    before, cut, after = expected.partition("…\n")
    lines = printed.splitlines(keepends=True)
    tail = lines[len(lines) - after.count("\n") :] if after else []
    return "".join([*lines[: before.count("\n")], cut, *tail]) if cut else printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_runs_and_prints_that(page: Path, tmp_path: Path) -> None:
    wrong = [
        f"shown:\n{block.body}\nprinted:\n{printed}"
        for block, printed in outputs(page.read_text(encoding="utf-8"), tmp_path)
        if not matches(block.body, printed)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / link["path"] if link["path"] else page
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in anchors(target), link[0]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_blocks_are_short(page: Path) -> None:
    long = [line for block in blocks(page.read_text(encoding="utf-8")) for line in block.body.splitlines()
            if block.language != "text" and len(line) > 110]  # fmt: skip
    assert not long


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= set(
        re.findall(r"\((\w[\w-]*\.md)\)", index)
    )


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n…\n", "a\nb\nc\n", True),
        ("a\n…\nc\n", "a\nb\nc\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("a.c\n", "abc\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_an_output_is_compared_line_by_line(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
    assert matches(as_shown(expected, printed), printed)


def rewrite(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as directory:
        found = list(outputs(text, Path(directory)))
    for block, printed in reversed(found):
        if not matches(block.body, printed):
            start, end = block.span
            text = text[:start] + as_shown(block.body, printed) + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        rewrite(each)
