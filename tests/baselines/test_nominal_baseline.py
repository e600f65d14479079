"""Knowing the cost model: the nominal optimum, evaluated once."""

from __future__ import annotations

from functools import cache

from lts_bench import make_task
from lts_bench.baselines.nominal import Nominal
from lts_bench.exact import optimum
from lts_bench.nominal import nominal_data
from lts_bench.task import Task
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


@cache
def small_task(tpot_ms: float = 40.0) -> Task:
    return make_task(model="llama-3.1-8b", cluster="h100x2", workload=f"isl=512,osl=64,ttft_ms=2000,tpot_ms={tpot_ms}")


class TestNominal(AgentConformance):
    agent = Nominal
    nominal = nominal_data(small_task().spec)

    def task(self):
        return small_task()


def test_on_the_nominal_machine_its_only_evaluation_is_the_optimum():
    task = small_task()
    meter = run_agent(Nominal, task, 100, nominal=nominal_data(task.spec))
    assert meter.used == 1
    assert meter.best.goodput_per_npu == optimum(task).goodput_per_npu


def test_on_another_machine_it_evaluates_the_same_strategy():
    task = small_task()
    meters = [run_agent(Nominal, each, 1, nominal=nominal_data(task.spec)) for each in (task, task.instance(3))]
    assert meters[0].best.vector == meters[1].best.vector
    assert meters[0].best.goodput_per_npu != meters[1].best.goodput_per_npu


def test_where_nothing_is_feasible_it_evaluates_nothing():
    task = small_task(tpot_ms=1e-3)
    assert run_agent(Nominal, task, 10, nominal=nominal_data(task.spec)).used == 0
