"""Tables of a strategy: beside others, what it holds in memory, where its time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lts_bench.quantities import quantity
from lts_bench.report.site.cells import Cell, Table, numeric
from lts_bench.report.strategy_drawing import DIMENSIONS
from lts_bench.report.strategy_text import letters, shown_axes, shown_degrees
from lts_bench.report.tables import NONE
from lts_bench.space.disaggregated import POOLS, Disaggregated
from lts_bench.space.strategy import Strategy

AnyStrategy = Strategy | Disaggregated
MEMORY = ("weights", "kv", "buffers")
"""What of a device's memory is held."""


def parts(strategy: AnyStrategy) -> dict[str, Strategy]:
    """Return a strategy's pools by name; one without a name where it has none."""
    if isinstance(strategy, Disaggregated):
        return {pool: getattr(strategy, pool) for pool in POOLS}
    return {"": strategy}


def comparison(strategies: Mapping[str, AnyStrategy]) -> Table:
    """Return strategies side by side; what differs from the first one is marked."""
    columns = [_entries(strategy) for strategy in strategies.values()]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [[Cell(name), *_compared([column.get(name, (NONE,)) for column in columns])] for name in names]
    axes = " · ".join(shown_axes(next(iter(parts(next(iter(strategies.values()))).values())).sharding))
    caption = f"Degrees, and what the axes {axes} split of each operator; ≠ marks what differs from the first column"
    return Table("comparison", caption, ("", *strategies), rows, sortable=False)


def _entries(strategy: AnyStrategy) -> dict[str, tuple[str, ...]]:
    """Return degrees and splits by name, those of pools apart."""
    found: dict[str, tuple[str, ...]] = {}
    for pool, part in parts(strategy).items():
        start = f"{pool} " if pool else ""
        found |= {f"{start}{name}": (str(getattr(part.degrees, name)),) for name in shown_degrees(part.sharding)}
        found |= {f"{start}{key}": split for key, split in letters(part.degrees, part.sharding)}
    return found


def _compared(values: Sequence[tuple[str, ...]]) -> list[Cell]:
    return [_split_cell(value, marked=value != values[0]) for value in values]


def _split_cell(value: tuple[str, ...], *, marked: bool) -> Cell:
    labels = [DIMENSIONS[letter][0] if letter in DIMENSIONS else letter for letter in value]
    named = [letter for letter in value if letter in DIMENSIONS and letter != "-"]
    return Cell(" · ".join(labels), colour=DIMENSIONS[named[-1]][2] if named else None, marked=marked)


def memory_table(memory: Mapping[str, float]) -> Table:
    """Return what the fullest device holds."""
    held = {name: memory[name] for name in MEMORY}
    lines = {**held, "free": memory["limit"] - sum(held.values()), "limit": memory["limit"]}
    rows = [
        [Cell(name), Cell(quantity("bytes", value), value), numeric(100 * value / memory["limit"], ".1f")]
        for name, value in lines.items()
    ]
    titles = ("Part", "Bytes", "% of the limit")
    return Table("memory", "Memory of the fullest device", titles, rows, numbers=frozenset({1, 2}), sortable=False)


def time_table(document: Mapping[str, Any]) -> Table:
    """Return the time of each operator and collective over the whole model, the longest in decode first."""
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for kind in ("operators", "collectives"):
        for row in document[kind]:
            pool = f"{row['pool']} " if "pool" in row else ""
            what = row["operator"] if kind == "operators" else f"{row['from']} → {row['to']}"
            how = row["split"] if kind == "operators" else f"{row['collective']} over {row['axes']}"
            total = sums[kind.removesuffix("s"), f"{pool}{what}", how]
            for place, phase in enumerate(("prefill_us", "decode_us")):
                total[place] += row["count"] * row[phase] / 1e3
    whole = [sum(each[place] for each in sums.values()) or 1.0 for place in (0, 1)]
    ordered = sorted(sums.items(), key=lambda each: (-each[1][1], -each[1][0], each[0]))
    rows = [
        [Cell(what), Cell(kind), Cell(how), *(_time(ms[at], whole[at]) for at in (0, 1))]
        for (kind, what, how), ms in ordered
    ]
    titles = ("Operator", "Kind", "Split or collective", "Prefill, ms (share)", "Decode step, ms (share)")
    caption = "Time of all layers, at the strategy's batch size"
    return Table("time", caption, titles, rows, filters=(1,), numbers=frozenset({3, 4}))


def _time(ms: float, whole: float) -> Cell:
    return Cell(f"{ms:.3f} ({100 * ms / whole:.0f} %)", ms)
