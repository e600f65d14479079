from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from small_task import random_agent

from lts_bench.harness.identify import absolute_ref, identify_agents
from lts_bench.specs.failure import InputError


def test_a_card_says_what_identifies_an_agent(tmp_path: Path) -> None:
    ref = random_agent(tmp_path)
    path = Path(ref.partition(":")[0])
    path.write_text(path.read_text() + "\n    defaults = {'rate': 0.5}\n")
    (card,) = identify_agents([ref], workers=1)
    assert (card.ref, card.name, card.version, card.track) == (ref, "mine", "1", "search")
    assert card.parameters == {"rate": 0.5}
    assert card.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_are_made_absolute_and_names_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_ref("a.py:A") == f"{tmp_path}/a.py:A"
    assert absolute_ref("a.py") == f"{tmp_path}/a.py"
    assert absolute_ref("random") == "random"


def test_what_an_agent_prints_when_imported_is_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ref = random_agent(tmp_path)
    path = Path(ref.partition(":")[0])
    path.write_text('import sys\nprint("banner")\nsys.stderr.write("noise")\n' + path.read_text())
    assert [card.name for card in identify_agents([ref], workers=1)] == ["mine"]
    assert capfd.readouterr() == ("", "")


def test_an_agent_that_ends_the_process_is_told(tmp_path: Path) -> None:
    ref = random_agent(tmp_path)
    path = Path(ref.partition(":")[0])
    path.write_text(path.read_text() + "\nimport os\nos._exit(7)\n")
    with pytest.raises(InputError, match="exit code 7"):
        identify_agents([ref], workers=1)
