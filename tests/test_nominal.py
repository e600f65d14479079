"""Model-based agents get a task's contents as plain data, and no more than that."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from lts_bench import load_task, make_task
from lts_bench.nominal import nominal_data, nominal_for, nominal_task
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import load_suite

SPECS = [spec for suite in ("smoke", "hard") for spec in load_suite(suite).tasks]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_data_that_went_over_the_wire_are_the_same_task(spec):
    data = msgspec.json.decode(msgspec.json.encode(nominal_data(spec)))
    assert nominal_task(data).digest == load_task(spec.name).digest


def test_answers_are_the_same_bits():
    task = make_task(model="llama-3.1-8b", cluster="h100x2", workload="isl=512,osl=64,tpot_ms=50")
    vectors = task.space.sample(50, np.random.default_rng(0))
    assert nominal_task(nominal_data(task.spec)).evaluate(vectors).tobytes() == task.evaluate(vectors).tobytes()


def test_neither_name_nor_digest_nor_path_is_told(tmp_path):
    config = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8}
    config |= {"intermediate_size": 1024, "vocab_size": 1024, "max_position_embeddings": 4096}
    (tmp_path / "mine.json").write_text(json.dumps(config))
    task = make_task(model=str(tmp_path / "mine.json"), cluster="h100x8", workload="isl=64,osl=64,tpot_ms=50")
    data = nominal_data(task.spec)
    words = json.dumps(data)
    assert not [word for word in (task.name, str(tmp_path), task.digest, task.space.digest) if word in words]
    assert nominal_task(data).digest == task.digest


def test_a_precision_is_part_of_it():
    task = make_task(model="llama-3.1-8b", cluster="h100x8", workload="isl=64,osl=64", precision="fp8")
    assert nominal_task(nominal_data(task.spec)).digest == task.digest


def test_the_reference_of_an_slo_that_none_meets_is_the_tasks():
    task = make_task(model="llama-3.1-8b", cluster="h100x8", workload="isl=64,osl=64,tpot_ms=0.01")
    assert nominal_task(nominal_data(task.spec)).reference == task.reference


def test_only_the_track_model_based_is_told():
    assert nominal_for("search", SPECS[0]) is None
    assert nominal_for("model_based", SPECS[0]) == nominal_data(SPECS[0])


def test_without_data_there_is_no_task():
    with pytest.raises(InputError, match="no nominal constants"):
        nominal_task(None)
