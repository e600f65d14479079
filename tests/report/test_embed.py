from __future__ import annotations

from pathlib import Path

import pytest
from made_rows import grid, make_rows

from lts_bench.report.embed import filled, filled_page, page_differences
from lts_bench.report.leaderboard import make_board
from lts_bench.report.tables import summary_markdown
from lts_bench.specs.failure import InputError

ROOT = Path(__file__).resolve().parents[2]
BOARD = make_board(grid(), make_rows({"a": 1.0, "b|": 0.5}))
PAGE = "before\n\n<!-- board: mini -->\nold\n<!-- end of board -->\n\nafter\n"


def test_a_block_is_filled_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert page_differences([BOARD], page) == [f"{page}: differs from what the results give"]
    text = filled_page([BOARD], page)
    assert text == PAGE.replace("old\n", summary_markdown(BOARD))
    assert "| search | 1 | a@1 | 1.0000 | 1.0000 to 1.0000 | 6/6 |" in text
    assert "b\\|@1" in text
    page.write_text(text)
    assert page_differences([BOARD], page) == []
    assert filled_page([BOARD], page) == text


@pytest.mark.parametrize(("text", "message"), [("no block", "has no block"), (PAGE.replace("mini", "x"), "no results")])
def test_a_page_that_cannot_be_filled_is_told(tmp_path: Path, text: str, message: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(InputError, match=message):
        filled_page([BOARD], page)
    with pytest.raises(InputError, match="cannot be read"):
        filled_page([BOARD], tmp_path / "none.md")


def test_the_tables_of_the_readme_are_those_of_the_committed_boards() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    boards = (ROOT / "results" / "boards").iterdir()
    summaries = {board.name: (board / "summary.md").read_text(encoding="utf-8") for board in boards}
    assert filled(readme, summaries, "README.md") == readme
