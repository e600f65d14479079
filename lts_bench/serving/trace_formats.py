"""Which column of a trace file means what: known names, never positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from lts_bench.specs.failure import InputError, did_you_mean

TICKS_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DATE = "date"
"""The unit of a column of dates with a time of day."""


@dataclass(frozen=True)
class Format:
    """How one family of traces names its columns; names are compared in the form of ``plain_name``.

    Attributes:
        name: the family.
        prompt: column of prompt tokens.
        output: column of output tokens.
        timestamp: unit of a column that is only called ``timestamp``; None where the family leaves it open.
        marks: further columns that tell the family from another one with the same lengths.
        block_tokens: tokens of a block that has one id in ``hash_ids``.
    """

    name: str
    prompt: str
    output: str
    timestamp: str | None = None
    marks: frozenset[str] = frozenset()
    block_tokens: int = 512


FORMATS = (
    Format("azure", "contexttokens", "generatedtokens", DATE),  # Azure/AzurePublicDataset, 2023 and 2024
    Format("burstgpt", "request_tokens", "response_tokens", "s"),  # HPMLL/BurstGPT README
    Format("mooncake", "input_length", "output_length", "ms"),  # kvcache-ai/Mooncake FAST25-release
    # alibaba-edu/qwen-bailian-usagetraces-anon README
    Format("bailian", "input_length", "output_length", "s", marks=frozenset({"chat_id"}), block_tokens=16),
    Format("vidur", "num_prefill_tokens", "num_decode_tokens", "s"),  # microsoft/vidur processed_traces
    Format("splitwise", "prompt_size", "token_size", "s"),  # Mutinifni/splitwise-sim traces
    Format("sharegpt", "input_toks", "output_toks"),  # casys-kaist/LLMServingSim workloads
    Format("lts-bench", "prompt_tokens", "output_tokens"),
    Format("lengths", "input_tokens", "output_tokens"),
    Format("openai", "prompt_tokens", "completion_tokens"),  # the names of an OpenAI response's usage
)

TIMES: dict[str, str | None] = {
    "arrival_s": "s",
    "arrived_at": "s",
    "arrival_time_s": "s",
    "arrival_timestamp": "s",
    "arrival_ms": "ms",
    "arrival_time_ms": "ms",
    "arrival_time_us": "us",
    "arrival_time_ns": "ns",
    "timestamp_s": "s",
    "timestamp_ms": "ms",
    "timestamp_us": "us",
    "timestamp_ns": "ns",
    "timestamp": None,
    "arrival_time": None,
}
"""Columns of arrival times → their unit; None where the name tells none."""

OPTIONAL = ("total_tokens", "session_id", "model", "hash_ids", "block_tokens")


@dataclass(frozen=True)
class Columns:
    """The columns of one file, by their names there.

    Attributes:
        format: the family.
        time: None where the file has no arrival times.
        time_unit: a key of ``TICKS_PER_S``, ``DATE``, or None where names do not tell it.
        prompt: prompt tokens.
        output: output tokens.
        optional: name in ``OPTIONAL`` → name in the file.
    """

    format: Format
    time: str | None
    time_unit: str | None
    prompt: str
    output: str
    optional: dict[str, str]


def plain_name(name: str) -> str:
    """A column's name for comparison: ``Request tokens`` and ``request_tokens`` are one."""
    return re.sub(r"[\s\-.]+", "_", name.strip().casefold())


def find_columns(names: Sequence[str], source: str) -> Columns:
    """Tell what the columns of a file mean.

    Args:
        names: as in the header, or the keys of the records.
        source: the file, for messages.

    Raises:
        InputError: lengths or times are missing, or there are several columns that could be meant.
    """
    by_plain: dict[str, list[str]] = {}
    for name in names:
        by_plain.setdefault(plain_name(name), []).append(name)
    family = _family(by_plain, names, source)
    times = [name for name in TIMES if name in by_plain]
    optional = [name for name in OPTIONAL if name in by_plain]
    for name in (family.prompt, family.output, *times, *optional):
        if len(by_plain[name]) > 1:
            raise InputError("the column occurs twice", source=source, field=by_plain[name][1])
    if len(times) > 1:
        raise InputError("more than one column of arrival times", source=source, value=[by_plain[t][0] for t in times])
    unit = (TIMES[times[0]] or family.timestamp) if times else None
    return Columns(
        format=family,
        time=by_plain[times[0]][0] if times else None,
        time_unit=unit,
        prompt=by_plain[family.prompt][0],
        output=by_plain[family.output][0],
        optional={name: by_plain[name][0] for name in optional},
    )


def _family(by_plain: dict[str, list[str]], names: Sequence[str], source: str) -> Format:
    """The format whose columns are all there; marks decide between equal lengths."""
    found = [each for each in FORMATS if {each.prompt, each.output, *each.marks} <= by_plain.keys()]
    found = [each for each in found if not any(other.marks > each.marks and _same(other, each) for other in found)]
    if len(found) == 1:
        return found[0]
    if found:
        pairs = ", ".join(f"{each.prompt} and {each.output}" for each in found)
        raise InputError(f"more than one pair of prompt and output lengths: {pairs}", source=source)
    lengths = dict.fromkeys((each.prompt, each.output) for each in FORMATS)
    hint = next((hint for name in by_plain if (hint := did_you_mean(name, chain.from_iterable(lengths)))), "")
    raise InputError(
        f"no columns of prompt and output tokens among {_listed(names)}{hint}",
        source=source,
        legal=[*(f"{prompt} with {output}" for prompt, output in lengths), f"and a time ({', '.join(TIMES)})"],
    )


def missing_times(names: Sequence[str], source: str) -> InputError:
    """The error that a file has no arrival times."""
    return InputError(f"no column of arrival times among {_listed(names)}", source=source, legal=tuple(TIMES))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no columns"


def _same(one: Format, other: Format) -> bool:
    return (one.prompt, one.output) == (other.prompt, other.output)
