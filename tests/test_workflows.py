"""The forge's workflows: what strangers can trigger has no secrets and no rights, and every command is one of ours."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from lts_bench.cli import app

WORKFLOWS = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.yml"))


def load(path: Path) -> dict[Any, Any]:
    # YAML 1.1 reads the key "on" as true.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(path.read_text()).items()}


def scripts(path: Path) -> list[str]:
    return [step["run"] for job in load(path)["jobs"].values() for step in job["steps"] if "run" in step]


def test_there_is_one_for_each_purpose() -> None:
    assert [path.stem for path in WORKFLOWS] == ["boards", "rerun", "submission"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_scripts_are_shell_and_take_no_text_of_strangers(path: Path) -> None:
    for script in scripts(path):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        assert "${{" not in script


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_rights_are_the_least(path: Path) -> None:
    workflow = load(path)
    assert "secrets." not in path.read_text()
    assert "pull_request_target" not in workflow["on"]
    assert workflow["permissions"] == {"contents": "write" if path.stem == "boards" else "read"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_and_options_are_there(path: Path) -> None:
    commands: Any = get_command(app)
    for name, words in re.findall(r"lts-bench (\w[\w-]*)([^|;&\n]*)", "\n".join(scripts(path))):
        known = {option for parameter in commands.commands[name].params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", words)) <= known
