from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lts_bench.exact.certificates import Certificate, certify, encode_certificates
from lts_bench.harness import certify as command
from lts_bench.harness.certify import Options, certify_suite
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Workload
from lts_bench.task import Task

SUITE = """
name: mini
description: One task for tests.
agents: [random]
seeds: 2
budget: e50
tasks:
  - name: llama-3.1-8b/h100x2/loose
    model: llama-3.1-8b
    cluster: h100x2
    workload: {isl: 512, osl: 128}
"""
SPEC = TaskSpec("llama-3.1-8b/h100x2/loose", "llama-3.1-8b", "h100x2", Workload(512, 128))
MINI = Suite("mini", "", ("random",), 2, "e50", (SPEC,))
FOUND = [certify(Task(SPEC), number) for number in range(3)]


def options(**changes: object) -> Options:
    return msgspec.structs.replace(Options("smoke", None, None, 1, False), **changes)


def differences(tmp_path: Path, stored: list[Certificate], last: int = 2) -> list[str]:
    file = tmp_path / "mini.jsonl"
    file.write_bytes(encode_certificates(stored))
    found = [each for each in FOUND if each.instance <= last]
    return [line.removeprefix(f"{file}: {SPEC.name} ") for line in command._differences(file, found, MINI, last)]


def test_a_suite_is_certified_into_one_file_that_then_checks(tmp_path: Path) -> None:
    path = tmp_path / "mini.yaml"
    path.write_text(SUITE)
    told: list[tuple[int, int, str]] = []
    document = certify_suite(options(suite=str(path), out=tmp_path / "out"), lambda *step: told.append(step))
    assert (tmp_path / "out" / "mini.jsonl").read_bytes() == encode_certificates(FOUND)
    assert [line["instance"] for line in document["certificates"]] == [0, 1, 2]
    assert (document["differences"], len(told), told[-1][:2]) == ([], 3, (3, 3))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mini.jsonl"]


def test_what_was_found_is_no_difference(tmp_path: Path) -> None:
    assert differences(tmp_path, FOUND) == []
    # Further instances than asked for are left alone.
    assert differences(tmp_path, FOUND, last=1) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"goodput_per_npu": FOUND[1].goodput_per_npu * (1 + 1e-6)}, "instance 1: goodput_per_npu: is "),
        ({"bound": FOUND[1].bound * (1 + 1e-6)}, "instance 1: bound: is "),
        ({"draw": 3}, "instance 1: draw: is 3, found 0"),
        ({"digest": "other"}, "instance 1: digest: is other, found "),
        ({"cost_model": "0"}, "instance 1: cost_model: is 0, found "),
        ({"strategy": {"tp": 2}}, "instance 1: goodput_per_npu: is "),
        ({"strategy": {"tp": 3}}, "instance 1: strategy: not legal"),
        ({"task": "llama-3.1-8b/h100x2/gone"}, "instance 1: is missing"),
    ],
)
def test_every_difference_is_told(tmp_path: Path, changes: dict[str, object], line: str) -> None:
    stored = [FOUND[0], msgspec.structs.replace(FOUND[1], **changes), FOUND[2]]
    assert any(each.startswith(line) for each in differences(tmp_path, stored))


def test_missing_and_superfluous_lines_are_told(tmp_path: Path) -> None:
    assert differences(tmp_path, FOUND[:2]) == ["instance 2: is missing"]
    other = msgspec.structs.replace(FOUND[0], task="a/b/c")
    (line,) = differences(tmp_path, [other, *FOUND])
    assert line == f"{tmp_path}/mini.jsonl: a/b/c instance 0: is no task of the suite"
    nowhere = tmp_path / "none.jsonl"
    assert list(command._differences(nowhere, FOUND, MINI, 2)) == [f"{nowhere}: is missing"]


def test_certificates_of_others_need_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="--out: must be given"):
        command._file(options(suite="mini.yaml"), MINI)
    assert command._file(options(suite="mini.yaml", out=tmp_path), MINI) == tmp_path / "mini.jsonl"
    smoke, checkout = msgspec.structs.replace(MINI, name="smoke"), tmp_path / "checkout"
    (checkout / "suites").mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    monkeypatch.setattr(command, "shelf", lambda: checkout / "suites" / "certificates")
    assert command._file(options(), smoke) == checkout / "suites" / "certificates" / "smoke.jsonl"
    monkeypatch.setattr(command, "shelf", lambda: tmp_path / "site-packages" / "certificates")
    with pytest.raises(InputError, match="--out: must be given"):
        command._file(options(), smoke)
    assert command._file(options(check=True), smoke).name == "smoke.jsonl"
