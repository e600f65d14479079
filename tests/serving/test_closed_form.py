"""The closed form of a pipeline against a replay of Poisson arrivals, mean with mean."""

from __future__ import annotations

import numpy as np
import pytest

from lts_bench.cost.phases import Phases
from lts_bench.cost.steady import Replica, Round, Rules, tpot_seconds, ttft_seconds, ttft_terms
from lts_bench.serving.generate import generate, poisson
from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replicas, replay
from lts_bench.serving.step_tables import Served, build_step_times
from lts_bench.serving.trace_lengths import Fixed, Independent
from lts_bench.space.check import legal_strategy
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.workload import Workload

PP, SEQUENCES = 4, 40
"""Stages, and sequences of a microbatch that the offered rate keeps decoding in the mean, about."""


@pytest.mark.parametrize("engine", ["generic", "vllm"])
@pytest.mark.parametrize("isl", [1024, 4096])
def test_a_pipeline_against_its_replay(engine: str, isl: int) -> None:
    model, cluster, workload = load_model("llama-3.1-70b"), load_cluster("h100x16"), Workload(isl, 512)
    degrees = {"replicas": 1, "pp": PP, "dp": 1, "tp": 4}
    strategy = legal_strategy(degrees, model, cluster, "test").strategy
    served = Served(model, cluster, load_engine(engine), workload, strategy)
    policy = Policy.of(served.engine, served.kv_tokens())
    times = build_step_times(served, rows=policy.rows, longest=policy.step_tokens)
    planned = round_at(served, SEQUENCES)
    requests_per_s = SEQUENCES * PP / tpot_seconds(PP, planned, planned.decode) / workload.osl
    trace = generate(poisson(requests_per_s), Independent(Fixed(isl), Fixed(512)), 4000, 0)
    found = replay(trace, Replicas(times, policy, pp=PP))
    steady = slice(1000, 3000)
    tpot, ttft = float(found.tpot_s[steady].mean()), float(found.ttft_s[steady].mean())
    arrived = trace.arrival_s[steady]
    batch = (len(arrived) - 1) / (arrived[-1] - arrived[0]) * workload.osl * tpot / PP
    at = round_at(served, batch)
    rules = Rules(np.inf, np.inf, np.inf, 0.5, 1.0, coordinated=False, mixed=served.engine.mixed_prefill)
    assert tpot_seconds(PP, at, at.decode) == pytest.approx(tpot, rel=0.08)
    assert ttft_seconds(ttft_terms(Replica(np.inf, PP, 1), rules, at), at.decode) == pytest.approx(ttft, rel=0.15)
    # As if every prompt followed another one closely.
    assert at.decode + at.waits * at.service < 0.85 * tpot


def round_at(served: Served, batch: float) -> Round:
    """The round at a mean batch size."""
    cost, vector = served.cost(Phases.of(served.workload, served.engine))
    return Round(*(np.interp(batch, cost.setting.phases.batches, each) for each in cost.rounds(vector)))
