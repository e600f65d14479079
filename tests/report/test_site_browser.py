"""A newcomer's session, from an own agent to its page in a browser; and how pages behave there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import needs_chromium, opened_browser
from small_task import random_agent

from lts_bench.registry import describe_agent
from lts_bench.specs.suite import load_suite

pytestmark = needs_chromium


def label_of(name: str) -> str:
    return f"{name}@{describe_agent(name).version}"


COMMAND = [sys.executable, "-c", "from lts_bench.cli import main; main()"]
RESULTS = Path(__file__).parents[2] / "results"
OFFICIAL = {label_of(name) for name in load_suite("smoke").agents}


def lts_bench(home: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([*COMMAND, *arguments], cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with rows of an own agent in ``runs``, and a ``site`` with them and the official ones."""
    directory = tmp_path_factory.mktemp("newcomer")
    lts_bench(directory, "run", "--suite", "smoke", "--agent", random_agent(directory))
    where = ("--suite", "smoke", "--out", "boards", "--site", "site")
    (board,) = json.loads(lts_bench(directory, "report", "runs", str(RESULTS), *where, "--json"))["boards"]
    assert {entry["agent"] for entry in board["leaderboard"]} == {"mine@1", *OFFICIAL}
    return directory


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Any, home: Path) -> Iterator[Any]:
    """The first page of the site; nothing may go wrong in it, nor in those behind it."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else wrong.append(request.url)
    )
    page.goto((home / "site" / "index.html").as_uri())
    yield page
    page.close()
    assert wrong == []


def column(page: Any, title: str) -> list[str]:
    """Return what the shown rows of the board say in a column."""
    titles = [text.strip() for text in page.locator("#board thead th").all_inner_texts()]
    rows = page.locator("#board tbody tr:visible").all()
    return [row.locator("th, td").nth(titles.index(title)).inner_text().strip() for row in rows]


def test_an_own_agent_stands_beside_the_official_ones_and_has_a_page(page: Any) -> None:
    assert set(column(page, "Agent")) == {"mine@1", *OFFICIAL}
    assert all(" to " in interval for interval in column(page, "95 %"))
    page.get_by_role("link", name="mine@1").click()
    assert page.locator("h1").inner_text() == "mine@1"
    assert "Better than megatron_search on" in page.locator("main").inner_text()
    page.get_by_role("link", name="runs").first.click()
    assert page.locator("h1").inner_text().startswith("mine@1 on ")
    assert page.locator("#seeds tbody tr").count() == 3


def test_a_run_shows_its_strategy_beside_the_optimum_its_memory_and_time(page: Any) -> None:
    page.get_by_role("link", name="smoke", exact=True).first.click()
    page.locator("#tasks tbody a").nth(1).click()
    titles = page.locator("#comparison thead th").all_inner_texts()
    assert "certified optimum" in titles
    assert page.locator("#memory").is_visible()
    assert page.locator("#time tbody tr").count() > 5
    drawing = page.locator("figure img").first
    assert drawing.evaluate("image => image.complete && image.naturalWidth > 100")
    page.locator("summary", has_text="Seed 1").click()
    text = page.locator("details pre").first.inner_text()
    assert "sharding" in json.loads(text)


def test_the_keyboard_sorts_and_the_order_is_told(page: Any) -> None:
    head = page.locator("#board thead th", has_text="Score")
    head.get_by_role("button").focus()
    for direction, reverse in (("ascending", False), ("descending", True)):
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == direction
        scores = [float(text) for text in column(page, "Score")]
        assert scores == sorted(scores, reverse=reverse)
    assert page.locator("#board th[aria-sort]").count() == 1


def test_filters_hide_rows_and_say_how_many_are_left(page: Any) -> None:
    page.get_by_label("Track").select_option("heuristic")
    assert column(page, "Agent") == ["megatron_search@1"]
    assert page.get_by_role("status").first.inner_text() == f"1 of {1 + len(OFFICIAL)} rows"
    page.get_by_label("Track").select_option("all")
    assert len(column(page, "Agent")) == 1 + len(OFFICIAL)


def test_the_first_stop_of_the_keyboard_skips_to_the_content(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_without_scripts_the_board_is_a_plain_table(browser: Any, home: Path) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto((home / "site" / "index.html").as_uri())
    assert page.locator("#board tbody tr").count() == 1 + len(OFFICIAL)
    assert page.locator("select, button").count() == 0
    page.close()


@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_is_wider_than_the_screen(browser: Any, home: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    folders = ("index.html", "suites/*.html", "agents/*.html", "tasks/*/*.html", "runs/*/mine*/*.html")
    for pattern in folders:
        page.goto(next((home / "site").glob(pattern)).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, pattern
    page.close()


CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("main *")].filter((each) =>
    [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
  return Math.min(...texts.map((each) => {
    const [a, b] = [light(getComputedStyle(each).color), light(behind(each))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(browser: Any, home: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    for pattern in ("index.html", "suites/*.html", "runs/*/mine*/*.html"):
        page.goto(next((home / "site").glob(pattern)).as_uri())
        # WCAG 2.2, level AA.
        assert page.evaluate(CONTRAST) >= 4.5, pattern
    page.close()
