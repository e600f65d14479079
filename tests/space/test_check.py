from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tiny_settings import dense_model, latent_model, moe_model

from lts_bench.space.check import Checked, check_strategy, legal_strategy
from lts_bench.space.decisions import Space
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.failure import Failure, InputError
from lts_bench.specs.model import Model

NODE, PAIR = load_cluster("h100x8"), load_cluster("h100x16")
MOE = moe_model()


def check(document: dict[str, Any], model: Model = MOE, cluster: Any = NODE) -> Checked:
    return check_strategy(document, model, cluster)


def classes(checked: Checked) -> list[Failure]:
    return [violation.failure for violation in checked.violations]


def test_replicas_fill_the_cluster() -> None:
    assert check({"tp": 2, "pp": 2}).strategy.degrees.replicas == 2
    assert check({}).strategy.degrees.replicas == 8


@pytest.mark.parametrize(
    ("document", "ep", "etp"),
    [
        ({"tp": 8}, 1, 8), ({"tp": 8, "ep": 4}, 4, 2), ({"tp": 4, "dp": 2, "etp": 1}, 8, 1),
        ({"tp": 4, "dp": 2, "moe_tp": 1, "ep": 8}, 8, 1),
    ],
)  # fmt: skip
def test_the_missing_one_of_ep_and_etp(document: dict[str, Any], ep: int, etp: int) -> None:
    checked = check(document)
    assert (checked.strategy.degrees.ep, checked.strategy.degrees.etp) == (ep, etp)
    assert not checked.violations


def test_attention_over_data_parallel_ranks_is_dp() -> None:
    spread, plain = check({"tp": 8, "dp_attention": 8, "ep": 8}), check({"tp": 1, "dp": 8, "ep": 8})
    assert spread.strategy == plain.strategy and spread.strategy.degrees.devices == 8
    half = check({"tp": 8, "dp_attention": 2}).strategy.degrees
    assert (half.dp, half.tp) == (2, 4)
    (violation,) = check({"tp": 8, "dp_attention": 3}).violations
    assert violation.failure is Failure.DIVISIBILITY and violation.legal_values == (1, 2, 4, 8)


def test_attention_over_data_parallel_ranks_needs_one_axis() -> None:
    with pytest.raises(InputError) as raised:
        check_strategy({"tp": [2, 4], "dp_attention": 2}, MOE, NODE, "plan.json")
    assert (raised.value.source, raised.value.field, raised.value.value) == ("plan.json", "dp_attention", 2)
    assert "two axes" in str(raised.value)
    one = check({"tp": [8, 1], "dp_attention": 2, "sharding": {"moe.shared.up": ["M", "R"]}})
    assert one.strategy == check({"tp": 8, "dp_attention": 2, "sharding": {"moe.shared.up": "M"}}).strategy
    assert not one.violations


def test_one_axis_written_as_two() -> None:
    flipped = check({"tp": [8, 1], "sharding": {"moe.shared.up": ["N", "R"]}})
    assert flipped.strategy == check({"tp": 8, "sharding": {"moe.shared.up": "N"}}).strategy


@pytest.mark.parametrize(
    ("document", "failure", "field"),
    [
        ({"tp": 2, "dp": 2, "ep": 8}, Failure.TOPOLOGY, "ep"),  # ep exceeds the stage
        ({"tp": 1, "dp": 1, "moe_tp": 1, "ep": 8}, Failure.TOPOLOGY, "ep"),
        ({"tp": 4, "dp": 3, "etp": 3, "ep": 4}, Failure.TOPOLOGY, "etp"),
        ({"tp": 16}, Failure.TOPOLOGY, "replicas"),
        ({"tp": 4, "replicas": 3}, Failure.TOPOLOGY, "replicas"),
        ({"tp": 3, "replicas": 3, "sharding": {"moe.attention.qkv": "R"}}, Failure.TOPOLOGY, "replicas"),
        ({"dp": 3, "ep": 3}, Failure.DIVISIBILITY, "ep"),
        ({"pp": 8}, Failure.DIVISIBILITY, "pp"),
        ({"pp": 2, "stages": [1, 1]}, Failure.TOPOLOGY, "stages"),
        ({"pp": 2, "stages": [3, 0]}, Failure.TOPOLOGY, "stages"),
        ({"pp": 2, "stages": []}, Failure.TOPOLOGY, "stages"),
        ({"tp": 2, "redundant_experts": 8}, Failure.TOPOLOGY, "redundant_experts"),
        ({"tp": 3}, Failure.DIVISIBILITY, "tp"),
        ({"dp": 4, "ep": 1, "etp": 4, "tp": 1, "sharding": {"moe.experts.up": "N"}}, None, ""),
    ],
)
def test_rules(document: dict[str, Any], failure: Failure | None, field: str) -> None:
    found = [(violation.failure, violation.field) for violation in check(document).violations]
    assert ((failure, field) in found) if failure else not found


def test_both_products_are_told() -> None:
    (violation,) = check({"tp": 1, "dp": 1, "moe_tp": 1, "ep": 8}).violations
    assert "ep·etp = 8·1 = 8" in violation.message and "dp·tp = 1" in violation.message


def test_dense_models_have_neither_dp_nor_experts() -> None:
    for document, field in (
        ({"dp": 2}, "dp"),
        ({"tp": 2, "ep": 2}, "ep"),
        ({"redundant_experts": 1}, "redundant_experts"),
    ):
        violations = check(document, dense_model()).violations
        assert (Failure.TOPOLOGY, field) in [(each.failure, each.field) for each in violations]
    assert not check({"tp": 8}, dense_model()).violations


def test_all_violations_are_listed() -> None:
    found = check({"tp": 3, "pp": 9, "dp": 2, "ep": 5}).violations
    assert {"pp", "ep", "tp"} <= {violation.field for violation in found}


HUGE = 10**26


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"tp": HUGE}, "replicas"),
        ({"tp": [HUGE, HUGE]}, "replicas"),
        ({"tp": HUGE, "etp": 3}, "ep"),
        ({"tp": HUGE, "dp_attention": 7}, "dp_attention"),
        ({"pp": HUGE}, "pp"),
        ({"ep": 3, "redundant_experts": HUGE}, "ep"),
    ],
)
def test_the_hugest_degrees_are_told_from_what_the_cluster_holds(document: dict[str, Any], field: str) -> None:
    found = check_strategy(document, moe_model(), load_cluster("h100x16"))
    told = [each for each in found.violations if each.field == field]
    assert told and all(isinstance(value, str) or value <= 64 for each in told for value in each.legal_values)
    assert found.strategy.to_json()["pp"] == document.get("pp", 1)


def test_legal_values_are_legal() -> None:
    for document in ({"dp": 3, "ep": 3}, {"tp": 3}, {"tp": 2, "dp": 4, "ep": 7}):
        for violation in check(document).violations:
            assert violation.legal_values
            if violation.field in ("ep", "tp"):
                for value in violation.legal_values:
                    changed = {k: v for k, v in document.items() if k != "etp"} | {violation.field: value}
                    again = check(changed).violations
                    assert all((each.rule, each.field) != (violation.rule, violation.field) for each in again)


def test_explicit_choices_are_named_and_defaults_are_a_matter_of_tp() -> None:
    assert not check({"tp": 8, "sharding": {"moe.stream": "N", "moe.attention.core": "heads"}}).violations
    model = dense_model(heads=6, kv_heads=6)
    explicit = check({"tp": 4, "sharding": {"dense.attention.core": "heads"}}, model).violations
    fields = {violation.field for violation in explicit}
    assert fields == {"dense.attention.core", "tp"}
    named = next(violation for violation in explicit if violation.field == "dense.attention.core")
    assert "R,batch" in named.legal_values and "R,heads" not in named.legal_values


def test_padding_accepts_what_does_not_divide() -> None:
    assert check({"tp": 3, "padding": True, "ep": 3}, MOE).violations == ()
    assert check({"tp": 3}, MOE).violations


def test_redundant_experts_make_slots() -> None:
    model = load_model("deepseek-v3")
    cluster = load_cluster("h100x32")
    assert not check({"dp": 24, "ep": 24, "redundant_experts": 8}, model, cluster).violations
    assert Failure.DIVISIBILITY in classes(check({"dp": 24, "ep": 24}, model, cluster))


def test_idle_devices_are_a_warning() -> None:
    checked = check({"tp": 2, "replicas": 1})
    assert not checked.violations and "2 of 8" in checked.warnings[0]
    assert check({"tp": 2}).warnings == ()


@pytest.mark.parametrize("model", [dense_model(2), moe_model(), latent_model()], ids=lambda model: model.name)
@pytest.mark.parametrize("cluster", [NODE, PAIR], ids=lambda cluster: cluster.name)
def test_masks_agree_with_the_validator(model: Model, cluster: Any) -> None:
    """One operator at a time, every choice under every degrees; and random vectors, whole."""
    space = Space.build(model, cluster)
    rng = np.random.default_rng(0)
    vectors = np.stack([rng.integers(size, size=300) for size in space.sizes], axis=1)
    for vector in vectors:
        checked = check_strategy(space.decode(vector).to_json(), model, cluster)
        assert (not checked.violations) == bool(space.legal(vector)[0]), checked.violations
        if not checked.violations:
            assert (space.encode(checked.strategy) == space.canonical(vector)[0]).all()


def test_masks_agree_with_the_validator_everywhere() -> None:
    model = dense_model(2, heads=6, kv_heads=2)
    space = Space.build(model, NODE)
    whole = space.repair(np.zeros((1, len(space.names)), dtype=np.int64))[0]
    for index, column in product(range(len(space.degrees)), range(1, len(space.names))):
        for choice in range(space.sizes[column]):
            vector = whole.copy()
            vector[0], vector[column] = index, choice
            others = space.repair(vector)[0]
            others[column] = choice
            legal = bool(space.legal(others)[0])
            document = space.decode(others).to_json()
            assert legal == (not check_strategy(document, model, NODE).violations)
            canonical = space.canonical(others)[0, column]
            assert legal == bool(space.mask(index)[column, canonical])


def test_a_strategy_that_must_be_legal_is_refused_with_every_rule_it_breaks() -> None:
    model, cluster = load_model("llama-3.1-8b"), load_cluster("h100x8")
    document = {"tp": 8, "replicas": 4}
    broken = check_strategy(document, model, cluster).violations
    with pytest.raises(InputError, match=r"mine\.json") as refused:
        legal_strategy(document, model, cluster, "mine.json")
    assert broken and all(each.message in str(refused.value) for each in broken)
    assert legal_strategy({"tp": 8}, model, cluster) == check_strategy({"tp": 8}, model, cluster)
