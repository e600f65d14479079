from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lts_bench.serving.offered import poisson_trace, predicted_rate
from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replicas, replay
from lts_bench.serving.step_times import constant_times
from lts_bench.serving.trace import Trace
from lts_bench.specs.engine import load_engine
from lts_bench.specs.workload import Workload
from lts_bench.task import load_task

WORKLOAD = Workload(100, 20)


@pytest.mark.parametrize("turns", [1, 4, 64])
def test_gaps_of_every_so_manieth_request_are_sums_of_exponential_ones(turns: int) -> None:
    trace = poisson_trace(WORKLOAD, 8.0, 20_000, turns)
    gaps = np.diff(trace.arrival_s)
    assert gaps.mean() == pytest.approx(turns / 8.0, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(turns**-0.5, rel=0.02)
    assert set(trace.prompt_tokens) == {100}
    assert set(trace.output_tokens) == {20}


@pytest.mark.parametrize("dp", [1, 2])
def test_one_of_the_replicas_served_in_turn_sees_every_so_manieth_request(dp: int) -> None:
    trace = poisson_trace(WORKLOAD, 50.0, 300)
    policy = replace(Policy.of(load_engine("vllm"), 5_000), max_sequences=8)
    together = Replicas(constant_times(0.02, 1e-4, policy.rows), policy, count=3, dp=dp)
    one = Trace(trace.arrival_s[::3], trace.prompt_tokens[::3], trace.output_tokens[::3])
    alone = replay(one, replace(together, count=1))
    assert replay(trace, together).finish_s[::3].tolist() == alone.finish_s.tolist()


def test_the_predicted_rate_is_that_of_whole_answers() -> None:
    task = load_task("llama-3.1-8b/h100x8/chat")
    assert predicted_rate(task, 1_000.0) == 8 * 1_000.0 / task.workload.osl
