"""A chip as a YAML file, the origin of its constants beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lts_bench.calibrate.kernels import BY_TYPE, Refit
from lts_bench.specs.chip import Chip


def chip_yaml(chip: Chip, refits: Sequence[Refit], table: str, origin: str) -> str:
    """The text of a complete chip file.

    Args:
        chip: the chip with its new constants.
        refits: the kernels that were fitted.
        table: file that they were fitted to.
        origin: where all other values come from.
    """
    notes = {refit.kernel: _note(refit, Path(table).name) for refit in refits}
    facts: dict[str, Any] = msgspec.to_builtins(chip)
    kernels = facts.pop("kernels")
    lines = [f"# refitted by lts-bench calibrate; what is not said to be fitted is that of {origin}"]
    lines += [line for key, value in facts.items() if value is not None for line in _fact(key, value)]
    lines.append("kernels:")
    for kernel, constants in kernels.items():
        lines += _kernel(kernel, constants, notes)
    return "\n".join(lines) + "\n"


def _fact(key: str, value: Any) -> Iterable[str]:
    if not isinstance(value, Mapping):
        return [f"{key}: {_scalar(value)}"]
    return [f"{key}:", *(f"  {name}: {_scalar(each)}" for name, each in value.items())]


def _kernel(kernel: str, constants: Any, notes: Mapping[str, str]) -> Iterable[str]:
    if kernel not in BY_TYPE:
        lines = _noted(_fact(kernel, constants), notes.get(kernel))
    else:
        inside = [_noted(_fact(kind, each), notes.get(f"{kernel}.{kind}")) for kind, each in constants.items()]
        lines = [f"{kernel}:", *(f"  {line}" for block in inside for line in block)]
    return [f"  {line}" for line in lines]


def _noted(lines: Iterable[str], note: str | None) -> list[str]:
    first, *rest = lines
    return [f"{first} # {note}" if note else first, *rest]


def _note(refit: Refit, table: str) -> str:
    found = f"fitted to {table}: {refit.rows} rows, median error {refit.new['median_error_percent']:.1f} %"
    outside = refit.held_out
    return found if outside is None else f"{found}, {outside['median_error_percent']:.1f} % on shapes held out"


def _scalar(value: Any) -> str:
    return msgspec.json.encode(value).decode() if isinstance(value, str) else f"{value:.10g}"
