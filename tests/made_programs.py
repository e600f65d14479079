"""Programs of tensor operators written in a few lines of text."""

from __future__ import annotations

from typing import Any

from lts_bench.validate.program_json import read_program
from lts_bench.validate.sharding import answer


def spec(text: str) -> list[Any]:
    """``".,x+y"`` → ``[None, ["x", "y"]]``."""
    entries = [None if part == "." else part.split("+") for part in text.split(",")]
    return [entry[0] if entry is not None and len(entry) == 1 else entry for entry in entries]


def program(mesh: dict[str, int], text: str, dtype: str = "f32") -> dict[str, Any]:
    """Lines ``NAME SHAPE SPEC [W]``, ``OUT = OP[:ARGUMENT] OPERANDS… [@PIN]`` and ``-> NAME SPEC``."""
    data: dict[str, Any] = {"mesh": dict(mesh), "dtype": dtype, "inputs": {}, "ops": [], "outputs": {}}
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("->"):
            _, name, layout = line.split()
            data["outputs"][name] = None if layout == "free" else spec(layout)
        elif "=" in line:
            data["ops"].append(_operator(*line.split(" = ")))
        else:
            name, shape, layout, *rest = line.split()
            data["inputs"][name] = {"shape": [int(size) for size in shape.split(",")], "spec": spec(layout)}
            data["inputs"][name] |= {"weight": True} if rest == ["W"] else {}
    return data


def _operator(out: str, right: str) -> dict[str, Any]:
    kind, *words = right.split()
    kind, _, argument = kind.partition(":")
    data: dict[str, Any] = {"out": out, "op": kind, "in": [word for word in words if not word.startswith("@")]}
    if words[-1].startswith("@"):
        data["spec"] = spec(words[-1][1:])
    if kind == "einsum":
        data["eq"] = argument.replace(">", "->")
    elif argument:
        data["axis"] = int(argument)
    return data


def answered(mesh: dict[str, int], text: str, dtype: str = "f32") -> dict[str, Any]:
    """The answer to a program."""
    return answer(read_program(program(mesh, text, dtype)))


def collectives(mesh: dict[str, int], text: str) -> list[tuple[str, int, int]]:
    """(kind, group, bytes) of a program's collectives, sorted."""
    return sorted((each["kind"], each["group"], each["n_bytes"]) for each in answered(mesh, text)["collectives"])
