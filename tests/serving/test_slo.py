from __future__ import annotations

import pytest

from lts_bench.serving.slo import parse_slo
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import Slo


def test_limits() -> None:
    assert parse_slo("ttft_ms=500, tpot_ms=50") == Slo(500, 50, 90)
    assert parse_slo("tpot_ms=7.5,percentile=99") == Slo(None, 7.5, 99)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ttft=0.5", "slo: ttft: unknown key; did you mean 'ttft_ms'?; legal: ttft_ms, tpot_ms, percentile"),
        ("latency=3", "slo: latency: unknown key; legal: ttft_ms, tpot_ms, percentile"),
        ("tpot_ms=-1", "tpot_ms"),
        ("tpot_ms=0", "tpot_ms"),
        ("tpot_ms=fast", "tpot_ms"),
        ("tpot_ms=", "slo: tpot_ms: a value is missing"),
        ("tpot_ms=1,tpot_ms=2", "slo: tpot_ms: the key occurs twice"),
        ("percentile=100", "percentile"),
        ("", "unknown key"),
    ],
)
def test_bad_limits(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_slo(text)
    assert told in str(caught.value) and "\n" not in str(caught.value)
