from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lts_bench.harness.lifeline import children


def test_a_process_that_ends_while_its_children_are_listed_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    # It was there a moment ago.
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    assert children(ended.pid) == []
