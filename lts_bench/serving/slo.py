"""Limits on latency as given on the command line."""

from __future__ import annotations

from lts_bench.specs.loading import convert, parse_pairs
from lts_bench.specs.workload import Slo


def parse_slo(text: str) -> Slo:
    """Read ``ttft_ms=500,tpot_ms=50,percentile=99``; what is left out does not bind, the percentile is 90.

    Raises:
        InputError: unknown or repeated keys, or values that are no positive numbers.
    """
    return convert(parse_pairs(text, Slo.__struct_fields__, "slo"), Slo, "slo")
