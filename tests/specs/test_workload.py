from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import Slo, Workload, parse_workload

CHAT = Workload(1024, 512, Slo(ttft_ms=2000.0, tpot_ms=50.0, percentile=99.0), memory_fraction=0.8)


def test_every_form_gives_the_same_workload(tmp_path: Path) -> None:
    data = msgspec.to_builtins(CHAT)
    (tmp_path / "a=b.yaml").write_bytes(msgspec.yaml.encode(data))
    (tmp_path / "chat.json").write_bytes(msgspec.json.encode(data))
    pairs = "isl=1024, osl=512, ttft_ms=2000, tpot_ms=50, percentile=99, memory_fraction=0.8"
    forms = [pairs, data, CHAT, tmp_path / "chat.json", str(tmp_path / "a=b.yaml")]
    assert [parse_workload(form) for form in forms] == [CHAT] * len(forms)


def test_limits_left_out_do_not_bind() -> None:
    assert parse_workload("isl=1,osl=2") == Workload(1, 2, Slo(None, None, 90.0), None)
    assert parse_workload("isl=1,osl=2,ttft_ms=null").slo.ttft_ms is None


@given(
    isl=st.integers(1, 10**6), osl=st.integers(1, 10**6), ttft=st.floats(1e-6, 1e9), percentile=st.floats(0.01, 99.99)
)
def test_pairs_carry_every_number_exactly(isl: int, osl: int, ttft: float, percentile: float) -> None:
    read = parse_workload(f"isl={isl},osl={osl},ttft_ms={ttft!r},percentile={percentile!r}")
    assert read == Workload(isl, osl, Slo(ttft, None, percentile))


@pytest.mark.parametrize(
    ("slo", "told"),
    [
        ({"ttft_mss": 500}, "slo.ttft_mss: unknown key; did you mean 'ttft_ms'?"),
        ({"ttft": 0.5}, "slo.ttft: unknown key; did you mean 'ttft_ms'?; legal: ttft_ms, tpot_ms, percentile"),
        ({"latency": 3}, "slo.latency: unknown key; legal: ttft_ms, tpot_ms, percentile"),
        ({"tpot_ms": -1}, "slo.tpot_ms: must be > 0 (got -1)"),
        ({"tpot_ms": 0}, "slo.tpot_ms: must be > 0 (got 0)"),
        ({"tpot_ms": float("nan")}, "slo.tpot_ms: must be a finite number"),
        ({"tpot_ms": float("inf")}, "slo.tpot_ms: must be a finite number"),
        ({"tpot_ms": "50"}, "slo.tpot_ms: must be a plain number"),
        ({"tpot_ms": True}, "slo.tpot_ms: must be a number, not a boolean"),
        ({"percentile": 0}, "slo.percentile: must be > 0"),
        ({"percentile": 100}, "slo.percentile: must be < 100"),
        ([500], "slo: must be a mapping"),
    ],
)
def test_bad_objectives_name_the_key(slo: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_workload({"isl": 1, "osl": 1, "slo": slo})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("isl=1024", "osl: required key is missing"),
        ("isl=1024,osl", "osl: a value is missing"),
        ("isl=1,osl=2,ttft_ms=", "ttft_ms: a value is missing"),
        ("isl=1,isl=2,osl=2", "isl: the key occurs twice"),
        ("isl=1,osl=2,tppt_ms=5", "tppt_ms: unknown key; did you mean 'tpot_ms'?"),
        ("isl=1,osl=2,slo=5", "slo: unknown key"),
        ("isl=1.5,osl=2", "isl: must be a whole number"),
        ("isl=0,osl=2", "isl: must be >= 1"),
        ("isl=1,osl=2,tpot_ms=nan", "slo.tpot_ms: must be a plain number"),
        ("isl=1,osl=2,tpot_ms=50ms", "slo.tpot_ms: must be a plain number"),
        ("isl=1,osl=2,tpot_ms=[", "not valid YAML"),
        ("chat", "chat: cannot be read"),
    ],
)
def test_bad_texts_name_the_key(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_workload(text)
    assert told in str(caught.value)


def test_a_workload_built_in_python_is_checked_too() -> None:
    with pytest.raises(InputError, match=r"slo\.tpot_ms: must be > 0"):
        parse_workload(Workload(1, 1, Slo(tpot_ms=-1.0)))
