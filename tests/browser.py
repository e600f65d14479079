"""Chromium for tests of pages; they are skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None, reason="needs chromium (Debian: apt-get install chromium)"
)


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Give a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root, as in containers, has no sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
