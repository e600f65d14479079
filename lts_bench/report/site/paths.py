"""Where pages lie: file names of any names, from the site's root."""

from __future__ import annotations

import hashlib
import re

SAFE = re.compile(r"[a-z0-9][a-z0-9._@-]*")
LONGEST = 80


def slug(name: str) -> str:
    """Return a file name for any name: its own where that is safe on every file system, else with a digest of it."""
    if SAFE.fullmatch(name) and len(name) <= LONGEST:
        return name
    readable = re.sub("[^a-z0-9._@-]+", "_", name.lower()).strip("._@-")[:LONGEST]
    return f"{readable or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def suite_page(suite: str) -> str:
    """Return the page of a suite's board."""
    return f"suites/{slug(suite)}.html"


def figure_file(suite: str, name: str) -> str:
    """Return where a figure or table of a board lies."""
    return f"suites/{slug(suite)}/{name}"


def agent_page(agent: str) -> str:
    """Return the page of an agent."""
    return f"agents/{slug(agent)}.html"


def task_page(suite: str, task: str) -> str:
    """Return the page of a task under a suite's budget."""
    return f"tasks/{slug(suite)}/{slug(task)}.html"


def run_page(suite: str, agent: str, task: str) -> str:
    """Return the page of an agent's runs of a task."""
    return f"runs/{slug(suite)}/{slug(agent)}/{slug(task)}.html"


def drawing_file(suite: str, agent: str, task: str, part: str) -> str:
    """Return where the drawing of a strategy, or of one of its pools, lies."""
    return run_page(suite, agent, task).removesuffix(".html") + (f"-{part}.svg" if part else ".svg")
