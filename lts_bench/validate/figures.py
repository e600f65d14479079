"""Which figures the accuracy page has: measured values and their predictions, grouped by what a reader asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from lts_bench.cost.exchange import DIRECTIONS
from lts_bench.validate.answers import Answered, Pair
from lts_bench.validate.collectives import library_of
from lts_bench.validate.kernel_tables import LATENCY, table_kind
from lts_bench.validate.measured import measured_model
from lts_bench.validate.serving import CHOICE, LAYOUT, cells
from lts_bench.validate.table import Row, Table, measured

Groups = Mapping[str, Sequence[Pair]]

KERNELS = {
    "gemm": "matrix product",
    "prefill_attention": "attention of prompts",
    "decode_attention": "attention in decode",
    "latent_prefill": "latent attention of prompts",
    "latent_decode": "latent attention in decode",
    "experts": "experts",
}
MUCH_KV_BYTES = 100e6
"""Bytes from which on reading the cache, not the launch, decides the time of attention."""
NODE = 8
"""Devices of the largest node in the tables of collectives."""
CELL = ("config_name", "system", "engine", "precision")
"""What the runs of a cell share; errors inside one are alike."""


def by(pairs: Sequence[Pair], *names: Callable[[Pair], str]) -> dict[str, list[Pair]]:
    """Pairs by name, those of each function in turn, sorted."""
    groups: dict[str, list[Pair]] = {}
    for name in names:
        found: dict[str, list[Pair]] = {}
        for pair in pairs:
            found.setdefault(name(pair), []).append(pair)
        groups |= dict(sorted(found.items()))
    return groups


def cell(name: str) -> Callable[[Pair], str]:
    """Names a pair by a cell of its row."""
    return lambda pair: pair.row.get(name, "").strip()


def of_kind(answers: Iterable[Answered], kind: str) -> list[Answered]:
    """The tables of one kind."""
    return [each for each in answers if each.kind == kind]


def kernel_groups(answers: Iterable[Answered]) -> Groups:
    """Times of kernels by kernel, format and chip; attention in decode also where it reads much."""
    groups: dict[str, list[Pair]] = {}
    for table in of_kind(answers, "kernels"):
        pairs = table.pairs(LATENCY)
        groups |= by(pairs, _kernel)
        if table_kind(table.table).name == "generation attention":
            much = [pair for pair in pairs if _kv_bytes(table.table, pair.row) >= MUCH_KV_BYTES]
            groups |= by(much, lambda pair: f"{_kernel(pair)}, KV ≥ 100 MB")
    return dict(sorted(groups.items()))


def _kernel(pair: Pair) -> str:
    chip, kernel, dtype = pair.group
    return f"{KERNELS[kernel]}, {dtype}, {chip}"


def _kv_bytes(table: Table, row: Row) -> float:
    return table_kind(table).read(row).sizes["kv_bytes"]


def collective_groups(answers: Iterable[Answered]) -> Groups:
    """Times of collectives by system, in a node and beyond; those launched one by one, outside graphs, apart."""
    return by([pair for table in of_kind(answers, "collectives") for pair in table.pairs(LATENCY)], _collective)


def _collective(pair: Pair) -> str:
    where = "up to" if float(pair.row["num_gpus"]) <= NODE else "more than"
    eager = ", eager" if library_of(pair.row.get("library", "")).eager else ""
    return f"{pair.row['system'].strip()}, {where} {NODE} devices{eager}"


def exchange_pairs(answers: Iterable[Answered], column: str) -> list[Pair]:
    """Times of expert exchanges in one column; rows that are equal but for the system count once."""
    distinct: dict[tuple[str, ...], Pair] = {}
    for table in of_kind(answers, "exchange"):
        for pair in table.pairs(column):
            distinct.setdefault(tuple(value for name, value in pair.row.items() if name != "system"), pair)
    return list(distinct.values())


def exchange_groups(answers: Sequence[Answered]) -> Groups:
    """Times of expert exchanges by way, mode and system."""
    return {
        f"{way}, {name}": pairs
        for way in DIRECTIONS
        for name, pairs in by(exchange_pairs(answers, f"{way}_us"), lambda pair: ", ".join(pair.group[::-1])).items()
    }


def serving_groups(answered: Answered, column: str, models: Path) -> Groups:
    """One measured column of serving runs: all, dense and sparse, then by each part of a cell."""
    return by(
        answered.pairs(column),
        lambda pair: "all",
        lambda pair: _density(pair.row, models),
        *(cell(name) for name in CELL),
    )


def _density(row: Row, models: Path) -> str:
    return "mixture of experts" if measured_model(row["config_name"], row["precision"], models).is_moe else "dense"


def twins(table: Table, differ: Sequence[str]) -> Mapping[str, Sequence[float]]:
    """How far two measurements of one configuration lie apart, TPOT of the slower ÷ the faster − 1 in %.

    Args:
        table: serving runs; equal ones count with their median.
        differ: columns that name the two, what else a configuration has is equal.
    """
    same = [name for name in (*CHOICE, *LAYOUT) if name not in differ[-1:]]
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in table.rows:
        tpot = measured(row, "tpot_ms")
        if tpot is not None:
            runs = found.setdefault(cells(row, same), {})
            runs.setdefault(" ".join(cells(row, differ)), []).append(tpot)
    apart: dict[str, list[float]] = {}
    for runs in found.values():
        for one, other in combinations(sorted(runs), 2):
            a, b = np.median(runs[one]), np.median(runs[other])
            apart.setdefault(f"{one} and {other}", []).append(float(100 * (max(a, b) / min(a, b) - 1)))
    return dict(sorted(apart.items()))
