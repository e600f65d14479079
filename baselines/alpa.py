"""Alpa's two levels: an integer programme within every mesh, and the best number of stages above it."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

from lts_bench.agent import Agent
from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import KV_MEAN, WEIGHTS
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL
from lts_bench.cost.program import FloatArray, IntArray, Program, Rows
from lts_bench.cost.rows import ILLEGAL_SECONDS, LINE
from lts_bench.exact.factors import Factors, Terms, size_of
from lts_bench.exact.floors import Floors, rung_bounds
from lts_bench.exact.part import Part
from lts_bench.exact.relaxation import Choices
from lts_bench.nominal import nominal_task
from lts_bench.problem import Problem
from lts_bench.space.decisions import Space
from lts_bench.space.megatron import megatron_vectors
from lts_bench.task import Task

ROUND, PREFILL, HELD = range(3)
"""What a strategy sums up: seconds of a round of the heaviest stage, of a prompt in all stages, bytes of that stage."""
TINY = 1e-30
ATTEMPTS = 4
"""Degrees that are tried for every one that is wanted: no choice within a mesh may keep to the limits."""


class Alpa(Agent):
    """After Alpa (arXiv 2201.12023): intra-operator parallelism by an integer programme, stages above it.

    Within a mesh, the choices of all operators are one-hot variables, those of two neighbours one variable a pair, and
    HiGHS minimises the time of a round: a token of every sequence, and the prompts that come meanwhile. Layers of a
    kind are one layer that counts as often; the memory and the time of a prompt are rows. Costs are the nominal
    model's, unlike Alpa's, to which computing is free. Stages are even and alike in the space, so that the programme
    over them is the least of stages × heaviest stage over their numbers. ``solves`` degrees are solved, those of the
    highest bound on the goodput, each at the batch of that bound. The problem answers for the results, best predicted
    first. Alpa knows no disaggregated serving: there the best predicted of Megatron's pattern are evaluated.
    """

    name, version, track, anytime = "alpa", "1", "model_based", True
    defaults: ClassVar[dict[str, Any]] = {"solves": 40, "gap": 1e-3}

    def run(self, problem: Problem, rng: np.random.Generator) -> None:
        """Solve the nominal task and evaluate what comes of it."""
        found = strategies(nominal_task(problem.nominal), self.parameters["solves"], self.parameters["gap"])
        if len(found):
            problem.evaluate(found)


def strategies(task: Task, solves: int, gap: float) -> IntArray:
    """Return strategies (n, d), n up to ``solves``, highest nominal goodput first."""
    if isinstance(task.cost, CostModel):
        vectors = solutions(task.cost, task.space, solves, gap)
    else:
        vectors = megatron_vectors(task.space)
    answers = task.evaluate(vectors)
    order = np.lexsort((answers["violation"].sum(axis=1), -answers["goodput_per_npu"]))
    chosen: IntArray = vectors[order[:solves]]
    return chosen


def solutions(cost: CostModel, space: Space, solves: int, gap: float) -> IntArray:
    """Return the solutions (n, d) of the most promising degrees."""
    part = Part(cost, space)
    bounds = rung_bounds(part.program, Floors.of(cost, part.streams), 0.0)
    order = np.argsort(-bounds.max(axis=1), kind="stable")[: ATTEMPTS * solves]
    choices = ((d, solved(part, d, int(bounds[d].argmax()), gap)) for d in order.tolist())
    found = islice((part.vectors(d, chosen[None]) for d, chosen in choices if chosen is not None), solves)
    vectors: IntArray = np.concatenate([np.empty((0, len(space.names)), dtype=np.int64), *found])
    return vectors


def solved(part: Part, degrees: int, rung: int, gap: float) -> Choices | None:
    """Return the choice (variables,) of every operator on the mesh of the degrees, None where nothing fits.

    Args:
        part: the nominal task's tables.
        degrees: index of the degrees.
        rung: of the batch on the program's ladder.
        gap: relative, at which HiGHS may stop.
    """
    program, plan = part.program, part.plans[int(part.program.two_axes[degrees]) + 1]
    allowed = part.allowed(degrees, plan)
    allowed[0, 0] = True  # the degrees are given
    costs = per_variable(plan.factors, sums(program, plan.factors, degrees, rung), allowed.shape)
    possible = np.asarray((costs < ILLEGAL_SECONDS).all(axis=1))
    possible[: allowed.size] &= allowed.ravel()
    costs[~possible] = 0.0
    limits = np.array([program.rules.ttft_limit, program.rules.memory_limit - program.fixed_bytes])
    answer = milp(
        costs[:, ROUND] / max(costs[:, ROUND].max(), TINY),
        integrality=np.arange(len(costs)) < allowed.size,
        bounds=Bounds(0.0, possible.astype(float)),
        constraints=[LinearConstraint((costs[:, PREFILL:] / limits).T, ub=1.0), agreement(plan.factors, allowed.shape)],
        options={"mip_rel_gap": gap},
    )
    if answer.x is None:
        return None
    chosen: Choices = answer.x[: allowed.size].reshape(allowed.shape).argmax(axis=1).astype(np.uint8)
    return chosen


def per_variable(factors: Factors, found: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Return costs (variables of the programme, 3): first of every operator's choices, then of all pairs' choices."""
    singles, pairs = np.zeros((*shape, found.shape[1])), [np.zeros((0, found.shape[1]))]
    for scope, start in zip(factors.scopes, factors.starts, strict=True):
        its = found[start : start + size_of(factors.sizes, scope)]
        if len(scope) == 1:
            singles[scope[0], : len(its)] += its
        elif scope:
            pairs.append(its)
    return np.concatenate((singles.reshape(-1, found.shape[1]), *pairs))


def agreement(factors: Factors, shape: tuple[int, int]) -> LinearConstraint:
    """Return that every operator has one choice, and that the choices of a pair are those of its two operators."""
    blocks, width = [kron(eye_array(shape[0]), np.ones((1, shape[1])))], int(np.prod(shape))
    for scope in factors.scopes:
        if len(scope) == 2:
            sizes = [factors.sizes[variable] for variable in scope]
            sides = (
                kron(eye_array(sizes[0]), np.ones((1, sizes[1]))),
                kron(np.ones((1, sizes[0])), eye_array(sizes[1])),
            )
            for variable, size, side in zip(scope, sizes, sides, strict=True):
                own = eye_array(size, shape[0] * shape[1], k=variable * shape[1])
                blocks.append(hstack([own, csr_array((size, width - own.shape[1])), -side]))
            width += sizes[0] * sizes[1]
    rows = vstack([hstack([block, csr_array((block.shape[0], width - block.shape[1]))]) for block in blocks])
    targets = np.arange(rows.shape[0]) < shape[0]
    return LinearConstraint(rows.tocsr(), targets, targets)


def sums(program: Program, factors: Factors, degrees: int, rung: int) -> FloatArray:
    """Return (entries, 3) of the flat factors: ROUND, PREFILL and HELD of every choice or pair of choices."""
    begin = int(program.stage_base[degrees])
    stages = slice(begin, begin + int(program.stage_count[degrees]))
    heaviest = begin + int(program.stage_rows[stages].sum(axis=1).argmax())
    stage, whole = program.stage_rows[heaviest], program.totals[program.total_row[degrees]]
    batch, waits = float(program.ladder[rung]), float(program.waits[program.wait_row[degrees], FIRST_RUNG + rung])
    found = np.zeros((factors.entries, 3))

    def add(column: int, terms: Terms, rows: Rows, values: FloatArray, counts: FloatArray) -> None:
        at = rows.which[rows.base[degrees, terms.k] + terms.offset]
        found[:, column] += np.bincount(terms.entry, values[at] * counts[terms.block], minlength=len(found))

    prompts, steps = _phase(program.lines, LONE_PREFILL), _phase(program.lines, FIRST_RUNG + rung)
    add(ROUND, factors.times, program.edges, steps + waits * prompts, stage)
    add(ROUND, factors.prompts, program.prompts, waits * program.prefill[:, LONE_PREFILL], stage)
    add(PREFILL, factors.times, program.edges, prompts, whole)
    add(PREFILL, factors.prompts, program.prompts, program.prefill[:, LONE_PREFILL], whole)
    held = program.memory[:, WEIGHTS] + batch * float(program.pp[degrees]) * program.memory[:, KV_MEAN]
    add(HELD, factors.memory, program.operators, held, program.stage_memory[heaviest])
    return found


def _phase(lines: FloatArray, phase: int) -> FloatArray:
    """Return (rows,) seconds of one phase."""
    seconds: FloatArray = lines[phase // LINE, :, phase % LINE]
    return seconds
