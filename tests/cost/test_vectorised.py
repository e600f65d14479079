"""Evaluation in NumPy gives the same bits as machine code."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tiny_settings import WORKLOAD, dense_model, latent_model, moe_model, setting, space_of

from lts_bench.answer import ANSWER
from lts_bench.cost import compiled, vectorised
from lts_bench.cost.evaluator import Evaluator
from lts_bench.specs.model import Model

CASES = [
    (dense_model(8, tied=True), "h100x16", WORKLOAD, {"memory_fraction": 1.2e-3}),
    (moe_model(), "h100x16", "isl=2048,osl=128,ttft_ms=150,tpot_ms=30", {"coordinated_admission": True}),
    (moe_model(), "h100x16", "isl=4096,osl=32,ttft_ms=4,tpot_ms=2.2", {"memory_fraction": 2e-4, "max_batch": 64}),
    (latent_model(), "mi300x-8", "isl=512,osl=512", {"kv_reservation": "full", "max_batch": 1}),
    (latent_model(), "h100x8", "isl=1024,osl=4096,tpot_ms=8,percentile=99", {}),
    (dense_model(8), "h100x16", "isl=2048,osl=64,ttft_ms=200,tpot_ms=20", {"mixed_prefill": True}),
    (moe_model(), "h100x16", "isl=4096,osl=16,tpot_ms=5", {"mixed_prefill": True, "coordinated_admission": True}),
    (latent_model(), "h100x8", "isl=4096,osl=64", {"mixed_prefill": True, "max_batch": 300}),
    (dense_model(6), "tpu-v5p-4x4x4", "isl=2048,osl=32,ttft_ms=60,tpot_ms=12", {"overlap": 0.5}),
]


@pytest.mark.parametrize(("model", "cluster", "workload", "changes"), CASES, ids=lambda value: str(value)[:20])
def test_equal_bits(model: Model, cluster: str, workload: str, changes: dict[str, object]) -> None:
    space, cost = space_of(setting(model, cluster, workload, **changes))
    rng = np.random.default_rng(11)
    anything = np.stack([rng.integers(-1, size + 1, 300) for size in space.sizes], axis=1)
    vectors = np.concatenate([space.sample(3000, rng), anything])
    points, other_points, answers = np.empty((len(vectors), 2)), np.empty((len(vectors), 2)), np.empty(3300, ANSWER)
    expected = Evaluator(cost.program).evaluate(vectors, points)
    vectorised.evaluate_all(cost.program, vectors, answers, other_points)
    assert (answers == expected).all() and (points == other_points).all()
    assert np.isfinite(points).all() and answers["legal"].any()


def test_no_vectors() -> None:
    _, cost = space_of(setting(dense_model()))
    assert cost.evaluate(np.empty((0, len(cost.program.sizes)), np.int64)).shape == (0,)


def test_nothing_is_compiled_where_the_variable_is_set() -> None:
    code = (
        "import sys; sys.path += sys.argv[1:]; import numpy as np; from tiny_settings import *\n"
        "space, cost = space_of(setting(moe_model()))\n"
        "answers = cost.evaluate(space.sample(50, np.random.default_rng(0)))\n"
        "print(float(answers['goodput_per_npu'].sum()).hex(), 'numba' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *sys.path], env={compiled.VECTORISED: "1"}, capture_output=True, text=True
    )
    space, cost = space_of(setting(moe_model()))
    answers = cost.evaluate(space.sample(50, np.random.default_rng(0)))
    assert run.stdout.split() == [float(answers["goodput_per_npu"].sum()).hex(), "False"], run.stderr
