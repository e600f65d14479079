from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from lts_bench.exact import certificates
from lts_bench.exact.certificates import (
    DRAWS,
    certificate_of,
    certify,
    decode_certificates,
    drawn_task,
    encode_certificates,
)
from lts_bench.exact.optimum import Optimum
from lts_bench.results.rescoring import rescored
from lts_bench.specs.failure import InputError
from lts_bench.task import Task, make_task

TASK = make_task(model="llama-3.1-8b", cluster="h100x2", workload="isl=512,osl=128,tpot_ms=50")


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_known", {})
    monkeypatch.setattr(certificates, "stored_certificates", dict)


def answering(answers: Callable[[int], Optimum], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the n-th search give an answer; the list tells how many there were."""
    calls: list[int] = []

    def search(task: Task) -> Optimum:
        calls.append(len(calls))
        return answers(calls[-1])

    monkeypatch.setattr(certificates, "optimum", search)
    return calls


def found(goodput: float, bound: float | None = None) -> Optimum:
    vector = TASK.space.sample(1, np.random.default_rng(0))[0]
    strategy = TASK.space.decode(vector) if goodput else None
    return Optimum(goodput, vector if goodput else None, strategy, goodput if bound is None else bound)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_certificate_holds_on_its_machine(number: int) -> None:
    certificate, task = certify(TASK, number), drawn_task(TASK, number)
    assert rescored(task, certificate.strategy).goodput_per_npu == certificate.goodput_per_npu == certificate.optimum
    assert certificate.certified
    assert (certificate.task, certificate.digest, certificate.instance) == (TASK.name, TASK.digest, number)
    assert certify(TASK, number) == certificate


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_strategy_scores_above_1(number: int) -> None:
    optimum = certificate_of(TASK, number).optimum
    vectors = TASK.space.sample(5000, np.random.default_rng(number))
    goodput = drawn_task(TASK, number).evaluate(vectors)["goodput_per_npu"]
    assert goodput.max() > 0
    assert (goodput / optimum <= 1 + 1e-9).all()


def test_instances_are_machines_of_their_own() -> None:
    assert len({certificate_of(TASK, number).goodput_per_npu for number in range(4)}) == 4
    assert drawn_task(TASK, 0) is TASK


def test_a_draw_without_a_certified_feasible_strategy_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(lambda call: [found(0.0), found(1.0, bound=2.0), found(3.0)][call], monkeypatch)
    certificate = certify(TASK, 7)
    assert (certificate.draw, certificate.goodput_per_npu) == (2, 3.0)


def test_draws_end(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(lambda _: found(0.0), monkeypatch)
    with pytest.raises(InputError, match=f"in {DRAWS} draws of instance 7"):
        certify(TASK, 7)
    assert len(calls) == DRAWS


def test_the_nominal_machine_is_never_redrawn_and_may_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(lambda call: [found(0.0), found(1.0, bound=2.0)][call], monkeypatch)
    with pytest.raises(InputError, match="on the nominal machine"):
        certify(TASK, 0)
    certificate = certify(TASK, 0)
    assert (certificate.draw, certificate.certified, certificate.optimum, len(calls)) == (0, False, 2.0, 2)


def test_certificates_survive_their_file_to_the_byte() -> None:
    ordered = [certificate_of(TASK, number) for number in (0, 1, 2)]
    data = encode_certificates(ordered[::-1])
    assert decode_certificates(data, "x") == ordered
    assert encode_certificates(decode_certificates(data, "x")) == data
    assert data.count(b"\n") == 3


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"task": "x"}', b"\xff"])
def test_a_broken_line_is_named(line: bytes) -> None:
    data = encode_certificates([certificate_of(TASK, 0)]) + line + b"\n"
    with pytest.raises(InputError, match=r"^file:2: not a certificate"):
        decode_certificates(data, "file")


def test_a_stored_certificate_is_taken_and_any_other_is_sought_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(lambda _: found(5.0), monkeypatch)
    stored = msgspec.structs.replace(certify(TASK, 1), goodput_per_npu=4.0)
    calls.clear()
    other = msgspec.structs.replace(stored, digest="other", instance=2)
    shelf = {(each.digest, each.cost_model, each.instance): each for each in (stored, other)}
    monkeypatch.setattr(certificates, "stored_certificates", lambda: shelf)
    assert certificate_of(TASK, 1) is stored
    assert calls == []
    assert certificate_of(TASK, 2) is certificate_of(TASK, 2)
    assert len(calls) == 1


def test_importing_the_package_reads_no_certificates() -> None:
    code = "import sys, lts_bench; print('lts_bench.exact.certificates' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
