"""Boards inside pages: blocks between ``<!-- board: SUITE -->`` and ``<!-- end of board -->`` hold a small table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lts_bench.report.leaderboard import Board
from lts_bench.report.tables import summary_markdown
from lts_bench.specs.failure import InputError

BLOCK = re.compile(r"(?P<start><!-- board: (?P<suite>\S+) -->\n).*?(?P<end><!-- end of board -->)", re.DOTALL)


def filled_page(boards: Sequence[Board], page: Path) -> str:
    """Return a page whose blocks hold what the boards give.

    Raises:
        InputError: it cannot be read, has no block, or one of a suite that is not there.
    """
    summaries = {board.grid.name: summary_markdown(board) for board in boards}
    return filled(_read(page), summaries, str(page))


def filled(text: str, summaries: dict[str, str], source: str) -> str:
    """Return a text with its blocks filled; ``source`` names it in messages.

    Raises:
        InputError: it has no block, or one of a suite that is not there.
    """

    def block(found: re.Match[str]) -> str:
        if found["suite"] not in summaries:
            rule = "there are no results of this suite"
            raise InputError(rule, source=source, field="board", value=found["suite"], legal=tuple(summaries))
        return f"{found['start']}{summaries[found['suite']]}{found['end']}"

    text, count = BLOCK.subn(block, text)
    if not count:
        raise InputError("has no block <!-- board: SUITE --> … <!-- end of board -->", source=source)
    return text


def page_differences(boards: Sequence[Board], page: Path) -> list[str]:
    """Return a line where a page's blocks are not what the boards give."""
    same = filled_page(boards, page) == _read(page)
    return [] if same else [f"{page}: differs from what the results give"]


def _read(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", source=str(page)) from None
