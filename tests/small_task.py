"""A task on a real space that needs neither model nor cluster, and cells of it for agents written in tests."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from lts_bench.answer import ANSWER, ILLEGAL_VIOLATION
from lts_bench.budget import Budget
from lts_bench.harness.cells import AgentCard, Cell, TaskCard
from lts_bench.results.schema import Optimum
from lts_bench.space.decisions import Space
from lts_bench.space.operators import LOOKUP, MATMUL, Operator
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload

SPEC = TaskSpec("toy/box/short", "toy", "box", Workload(64, 64, Slo(ttft_ms=1000.0, tpot_ms=50.0)))
CARD = TaskCard(SPEC, "d" * 64, "e" * 64, "1")
OPTIMUM = Optimum(goodput_per_npu=465.0, certified=True)


def small_space() -> Space:
    operators = [Operator("dense.ffn.up", "ffn.up", MATMUL, 2), Operator("head", "head", LOOKUP, 2)]
    degrees = np.array([(8 // tp, 1, 1, 1, tp, 1, tp) for tp in (1, 2, 4, 8)])
    masks = np.zeros((4, 3, 16), dtype=np.bool_)
    for row, tp in enumerate((1, 2, 4, 8)):
        for column, operator in enumerate(operators, start=1):
            for index, (x, y) in enumerate(operator.choices):
                # Eight devices cannot split the contraction.
                masks[row, column, index] = x == "R" and (tp > 1 or y == "R") and not (tp == 8 and y == "K")
    return Space(operators, degrees, 2, np.arange(4), masks)


class SmallTask:
    """One device does not hold the model; goodput rises with the vector's digits."""

    name, feedback, workload = SPEC.name, "graded", SPEC.workload

    def __init__(self, *, feasible: bool = True) -> None:
        self.space = small_space()
        self.features = {"layers": 2.0, "devices": 8.0, "reference_goodput_per_npu": 200.0}
        self._feasible = feasible

    def evaluate(self, vectors: np.ndarray) -> np.ndarray:
        answers = np.zeros(len(vectors), dtype=ANSWER)
        legal = self.space.legal(vectors)
        answers["legal"], answers["feasible"] = legal, legal & (vectors[:, 0] > 0) & self._feasible
        answers["goodput_per_npu"] = np.where(answers["feasible"], vectors @ np.array([100.0, 10.0, 1.0]), 0.0)
        answers["ttft_s"], answers["tpot_s"], answers["memory_bytes"] = 0.5, 0.04, 1e9
        answers["violation"][legal & ~answers["feasible"]] = 0.5
        answers["violation"][~legal] = ILLEGAL_VIOLATION
        return answers


RANDOM = """
    import numpy as np
    from lts_bench.agent import Agent

    class Mine(Agent):
        name, version, track = "mine", "1", "search"

        def run(self, problem, rng):
            while problem.remaining:
                answers = problem.evaluate(problem.space.sample(7, rng))
"""


def agent_file(folder: Path, body: str, name: str = "mine") -> str:
    """Write an agent whose ``run`` has the given body and return its reference."""
    head = RANDOM.replace("mine", name).split("            while")[0]
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(head) + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n")
    return f"{path}:Mine"


def random_agent(folder: Path, name: str = "mine") -> str:
    return agent_file(folder, "while problem.remaining:\n    problem.evaluate(problem.space.sample(7, rng))", name)


def small_cell(ref: str, **changes: Any) -> Cell:
    agent = AgentCard(ref, "mine", "1", "search", {}, "a" * 64)
    fields: dict[str, Any] = {
        "task": CARD, "agent": agent, "seed": 1, "instance": 1, "budget": Budget("e50", 50, 30.0), "isolation": "child",
    }  # fmt: skip
    return Cell(**(fields | changes))
