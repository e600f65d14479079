"""Alpa's integer programme finds the best choices within a mesh, and keeps to memory and TTFT."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lts_bench import make_task
from lts_bench.baselines.alpa import HELD, PREFILL, ROUND, Alpa, agreement, per_variable, solved, strategies, sums
from lts_bench.exact import optimum
from lts_bench.exact.factors import strides
from lts_bench.exact.search import Search
from lts_bench.nominal import nominal_data
from lts_bench.task import Task
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent

RUNG = 12


@cache
def task_of(model: str = "llama-3.1-8b", cluster: str = "h100x4", limits: str = "ttft_ms=2000,tpot_ms=40") -> Task:
    return make_task(model=model, cluster=cluster, workload=f"isl=512,osl=64,{limits}")


class TestAlpa(AgentConformance):
    agent = Alpa
    nominal = nominal_data(task_of().spec)

    def task(self):
        return task_of()


def drawn(search: Search, degrees: int, count: int) -> np.ndarray:
    """Choices (n, variables) on the mesh of the degrees, any of those that the space admits."""
    plan = search.plans[int(search.program.two_axes[degrees]) + 1]
    allowed = search.allowed(degrees, plan)
    scores = np.random.default_rng(0).random((count, *allowed.shape))
    return (scores * allowed).argmax(axis=2)


def totals(search: Search, degrees: int, choices: np.ndarray) -> np.ndarray:
    """(n, 3) what choices sum up, entry by entry."""
    factors = search.plans[int(search.program.two_axes[degrees]) + 1].factors
    table = sums(search.program, factors, degrees, RUNG)
    found = np.zeros((len(choices), 3))
    for scope, start in zip(factors.scopes, factors.starts, strict=True):
        at = sum((step * choices[:, variable] for variable, step in strides(factors.sizes, scope).items()), start)
        found += table[at]
    return found


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_no_choices_that_keep_to_the_limits_have_a_shorter_round(model):
    task = task_of(model)
    search = Search(task.cost, task.space)
    rules = search.program.rules
    compared = 0
    for degrees in range(0, len(task.space.degrees), 5):
        chosen, others = solved(search, degrees, RUNG, 0.0), drawn(search, degrees, 2_000)
        cost = totals(search, degrees, others)
        fits = (cost[:, PREFILL] <= rules.ttft_limit) & (cost[:, HELD] <= rules.memory_limit)
        if chosen is None:
            assert not fits.any()
            continue
        compared += 1
        best = totals(search, degrees, chosen[None])[0]
        assert best[ROUND] <= cost[fits, ROUND].min(initial=np.inf) * (1 + 1e-6)
        assert best[PREFILL] <= rules.ttft_limit * (1 + 1e-6) and best[HELD] <= rules.memory_limit * (1 + 1e-6)
    assert compared > 1


def test_variables_that_agree_are_one_choice_an_operator_and_its_pairs():
    task = task_of()
    search = Search(task.cost, task.space)
    factors = search.plans[1].factors
    shape = (len(factors.sizes), max(factors.sizes))
    constraint = agreement(factors, shape)
    choices = drawn(search, 0, 1)[0]
    singles = np.zeros(shape)
    singles[np.arange(shape[0]), choices] = 1.0
    pairs = []
    for scope in factors.scopes:
        if len(scope) == 2:
            pairs.append(np.zeros([factors.sizes[variable] for variable in scope]))
            pairs[-1][tuple(choices[list(scope)])] = 1.0
    one = np.concatenate([singles.ravel(), *(pair.ravel() for pair in pairs)])
    assert (constraint.A @ one).tolist() == constraint.lb.astype(float).tolist()
    pairs[0][...] = np.roll(pairs[0], 1, axis=0)
    other = np.concatenate([singles.ravel(), *(pair.ravel() for pair in pairs)])
    assert (constraint.A @ other).tolist() != constraint.lb.astype(float).tolist()
    assert len(one) == len(per_variable(factors, sums(search.program, factors, 0, RUNG), shape))


@pytest.mark.parametrize(("model", "cluster"), [("llama-3.1-8b", "h100x4"), ("mixtral-8x7b", "h100x8")])
def test_it_comes_close_to_the_optimum_of_the_nominal_machine(model, cluster):
    task = task_of(model, cluster)
    meter = run_agent(Alpa, task, 50, nominal=nominal_data(task.spec))
    assert meter.best.goodput_per_npu > 0.97 * optimum(task).goodput_per_npu
    assert meter.best.evaluation == 1
    assert meter.used == meter.unique <= 40


def test_where_nothing_fits_it_has_no_strategies():
    assert len(strategies(task_of(limits="ttft_ms=0.001"), 5, 1e-3)) == 0
