"""What the placement algebra answers to programs on meshes, in the form that the checker of measured cases reads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lts_bench.cost.collectives import Collective
from lts_bench.cost.planning import plan
from lts_bench.cost.programs import Program
from lts_bench.cost.redistribution import Step
from lts_bench.results.store import write_output
from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import read_yaml
from lts_bench.validate.program_json import read_program


def read_cases(path: str | Path) -> list[Mapping[str, Any]]:
    """The cases of a file.

    Raises:
        InputError: no such file, or no cases in it.
    """
    cases = read_yaml(path).get("cases")
    if not isinstance(cases, list) or not all(isinstance(case, dict) and "id" in case for case in cases):
        raise InputError("must be a list of cases with an id", source=str(path), field="cases")
    return cases


def answers(cases: Sequence[Mapping[str, Any]], source: str) -> list[dict[str, Any]]:
    """One answer a case.

    Raises:
        InputError: naming the case and what is wrong with its program.
    """
    found = []
    for case in cases:
        try:
            found.append({"id": case["id"], **answer(read_program(case.get("program")))})
        except InputError as error:
            raise InputError(str(error), source=f"{source}: {case['id']}") from None
    return found


def answer(program: Program) -> dict[str, Any]:
    """Collectives, flops and bytes per device of the cheapest plan of a program."""
    best = plan(program)
    local = {name: each.local_bytes(program.mesh, program.layouts[name]) for name, each in program.inputs.items()}
    ends = {name: layouts[0] for name, layouts in best.at_hand}
    return {
        "collectives": [_collective(step) for step in best.steps],
        "matmul_flops_per_device": best.flops,
        "weight_bytes_per_device": sum(local[name] for name in program.weights),
        "argument_bytes_per_device": sum(local.values()),
        "output_bytes_per_device": sum(
            program.tensors[name].local_bytes(program.mesh, layout) for name, layout in ends.items()
        ),
        "wire_bytes_per_device": best.scaled_wire_bytes / program.mesh.devices,
    }


def write_answers(path: str | Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Write answers as a JSON list.

    Raises:
        InputError: the file cannot be written.
    """
    write_output(Path(path), json.dumps(found, indent=1) + "\n")


def summary(found: Sequence[Mapping[str, Any]]) -> str:
    """Number of programs and of collectives of each kind in one line."""
    kinds = Counter(each["kind"] for one in found for each in one["collectives"])
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no collectives"
    return f"{len(found)} programs: {counted}"


def _collective(step: Step) -> dict[str, Any]:
    kind = "collective-permute" if step.kind is Collective.SEND else step.kind.label
    record = {"kind": kind, "group": step.group, "n_bytes": step.n_bytes}
    return record | ({"reduce": step.reduce} if step.reduce else {})
