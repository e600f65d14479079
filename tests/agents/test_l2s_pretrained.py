"""The pretrained policy reads names and ratios, draws legal strategies and begins near the best."""

from __future__ import annotations

import hashlib
import sys
from functools import cache

import numpy as np
import pytest

from lts_bench import make_task
from lts_bench.agents import l2s_pretrained
from lts_bench.agents._transfer import LETTERS, UNDECIDED, Inputs
from lts_bench.agents.l2s_pretrained import L2SPretrained, Policy, load_weights
from lts_bench.baselines.random import RandomSearch
from lts_bench.exact import optimum
from lts_bench.specs.config import list_models
from lts_bench.specs.failure import InputError
from lts_bench.task import Task
from lts_bench.testing import AgentConformance
from lts_bench.testing.conformance import run_agent


@cache
def task_of(model: str = "mixtral-8x7b", cluster: str = "h100x8") -> Task:
    return make_task(model=model, cluster=cluster, workload="isl=1024,osl=512,ttft_ms=2000,tpot_ms=50")


class TestL2SPretrained(AgentConformance):
    agent = L2SPretrained

    def task(self):
        return task_of()


def policy(task: Task) -> Policy:
    return Policy(task.space, task.features, load_weights())


@pytest.mark.parametrize("model", list_models())
def test_it_draws_legal_strategies_of_every_model(model):
    space = task_of(model, "h100x64").space
    drawer, rng = Policy(space, {**FEATURES, "devices": 64.0}, load_weights()), np.random.default_rng(0)
    assert space.legal(drawer.likeliest(20)).all()
    assert space.legal(drawer.draw(drawer.draw_degrees(50, 2.0, rng), rng)).all()


FEATURES = {
    "parameters": 47e9, "active_parameters": 13e9, "layers": 32.0, "hidden": 4096.0, "heads": 32.0, "experts": 8.0,
    "top_k": 2.0, "kv_bytes_per_token": 131072.0, "weight_bytes": 2.0, "devices": 8.0, "domain_devices": 8.0,
    "peak_bf16_flops_per_s": 9.9e14, "hbm_bytes": 8.5e10, "hbm_bytes_per_s": 3.3e12, "scale_up_bytes_per_s": 4.5e11,
    "scale_out_bytes_per_s": 5e10, "scale_out_oversubscription": 1.0, "torus": 0.0, "full_mesh": 0.0, "isl": 1024.0,
    "osl": 512.0, "ttft_limit_s": 2.0, "tpot_limit_s": 0.05, "memory_fraction": 0.9,
}  # fmt: skip


def test_tasks_without_limits_have_finite_inputs():
    inputs = Inputs(task_of().space, {**FEATURES, "ttft_limit_s": 0.0, "tpot_limit_s": 0.0})
    assert np.isfinite(inputs.of_degrees).all()


def test_fifty_evaluations_come_close_to_the_optimum_and_random_ones_do_not():
    task = task_of("llama-3.1-70b", "h100x32")
    best = optimum(task).goodput_per_npu
    pretrained, random = (run_agent(each, task, 50).best for each in (L2SPretrained, RandomSearch))
    assert pretrained.goodput_per_npu > 0.9 * best
    assert random is None or pretrained.goodput_per_npu > 1.1 * random.goodput_per_npu


def test_choices_that_are_kept_stay_and_all_others_are_drawn():
    task, rng = task_of(), np.random.default_rng(0)
    vectors = task.space.sample(30, rng)
    kept = np.where(rng.random(vectors[:, 1:].shape) < 0.5, vectors[:, 1:], -1)
    drawn = policy(task).draw(vectors[:, 0], rng, kept=kept)
    assert (drawn[:, 1:] == kept)[kept >= 0].all() and (drawn[:, 1:] >= 0).all()
    assert (drawn[:, 0] == vectors[:, 0]).all()


def test_the_likeliest_strategies_have_the_likeliest_degrees_each_once():
    drawer = policy(task_of())
    degrees = drawer.likeliest(10)[:, 0]
    assert len(set(degrees)) == 10
    assert (np.diff(drawer.degrees[degrees]) <= 0).all()
    assert len(drawer.likeliest(100_000)) == len(drawer.degrees)


def test_an_operator_sees_residual_core_and_what_is_before_it_once_they_are_drawn():
    task = task_of()
    inputs, names = Inputs(task.space, task.features), task.space.names[1:]
    out, core, stream = (names.index(f"moe.{name}") for name in ("attention.out", "attention.core", "stream"))
    assert inputs.order.index(stream) < inputs.order.index(core) < inputs.order.index(out)
    drawn = np.full((1, len(names)), -1)
    blank = inputs.of_operator(np.array([0]), drawn, out)[0]
    drawn[0, [stream, core]] = [0, task.space.choices[1 + core].index("R,batch")]
    near = inputs.of_operator(np.array([0]), drawn, out)[0, -3 * 2 * len(LETTERS) :].reshape(3, 2, -1)
    assert blank[-3 * 2 * len(LETTERS) :].sum() == 0
    assert [LETTERS[letter] for letter in near[1].argmax(axis=1)] == ["R", "batch"]
    assert (near[2] == near[1]).all() and near[0].sum() == 2
    assert len(LETTERS) ** 2 == UNDECIDED


def test_other_weights_are_not_loaded(monkeypatch):
    monkeypatch.setattr(l2s_pretrained, "DIGEST", "0" * 64)
    with pytest.raises(InputError, match="not the weights of this version"):
        load_weights()


def test_training_is_repeatable_and_its_weights_are_read(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the extra 'rl' is not installed")
    from lts_bench.agents import _pretraining

    path = tmp_path / "weights.npz"
    monkeypatch.setattr(sys, "argv", ["_pretraining", str(path), "--tasks", "1"])
    _pretraining.main()
    assert path.read_bytes() == _pretraining.trained(list(_pretraining.lessons(1)))
    assert capsys.readouterr().out.split() == [hashlib.sha256(path.read_bytes()).hexdigest()]
    with np.load(path, allow_pickle=False) as arrays:
        assert {key: array.shape for key, array in arrays.items()} == {k: a.shape for k, a in load_weights().items()}
