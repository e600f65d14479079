"""Limits on latency as given on the command line."""

from __future__ import annotations

from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.loading import convert, parse
from lts_bench.specs.workload import Slo


def parse_slo(text: str) -> Slo:
    """Read ``ttft_ms=500,tpot_ms=50,percentile=99``; what is left out does not bind, the percentile is 90.

    Raises:
        InputError: unknown or repeated keys, or values that are no positive numbers.
    """
    known, given = Slo.__struct_fields__, dict[str, object]()
    for pair in text.split(","):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in known:
            raise InputError(f"unknown key{did_you_mean(key, known)}", source="slo", field=key, legal=known)
        if key in given:
            raise InputError("the key occurs twice", source="slo", field=key)
        if not value:
            raise InputError("a value is missing: key=value", source="slo", field=key)
        given[key] = parse(f"value: {value}", "slo")["value"]
    return convert(given, Slo, "slo")
