from __future__ import annotations

import pytest
from tiny_settings import dense_model, latent_model, moe_model

from lts_bench.space.check import degree_violations
from lts_bench.space.degrees import MAX_IDLE_SHARE, MAX_TP, valid_degrees
from lts_bench.space.placement import placeable_stages
from lts_bench.space.rules import nests
from lts_bench.space.strategy import Strategy, even_stages
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.model import Model

PAIRS = [
    (model, cluster)
    for model in (dense_model(), moe_model(), latent_model())
    for cluster in ("h100x16", "gb200x72", "tpu-v5p-4x4x4")
]


@pytest.mark.parametrize(("model", "name"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_every_entry_is_valid_and_listed_once(model: Model, name: str) -> None:
    cluster = load_cluster(name)
    found = valid_degrees(model, cluster)
    assert found and len(set(found)) == len(found)
    for d in found:
        assert not list(degree_violations(model, cluster, Strategy(d, {}, even_stages(len(model.layers), d.pp))))
        assert (1 - MAX_IDLE_SHARE) * cluster.devices <= d.devices <= cluster.devices
        assert d.replicas == placeable_stages(cluster, d.stage) // d.pp
        assert d.ep * d.etp == d.stage and nests(d.etp, d.tx, d.ty, d.dp)
        assert d.tp <= MAX_TP and (d.tx == 1 or d.ty > 1) and d.pp <= len(model.layers)
        if not model.is_moe:
            assert d.dp == d.ep == 1


def test_dense_degrees_of_a_node_by_hand() -> None:
    found = {(d.pp, d.tx, d.ty, d.replicas) for d in valid_degrees(dense_model(4), load_cluster("h100x8"))}
    expected = {
        (pp, tx, ty, 8 // (pp * tx * ty))
        for pp in (1, 2, 4)
        for tx in (1, 2, 4, 8)
        for ty in (1, 2, 4, 8)
        if pp * tx * ty <= 8 and (tx == 1 or ty > 1)
    }
    assert found == expected


def test_deep_pipelines_need_layers() -> None:
    assert max(d.pp for d in valid_degrees(dense_model(3), load_cluster("h100x16"))) == 2


def test_a_rack_of_72_uses_its_own_divisors() -> None:
    model = dense_model(heads=72, kv_heads=72, hidden=72 * 64)
    tps = {d.ty for d in valid_degrees(model, load_cluster("gb200x72")) if d.tx == 1}
    assert tps == {1, 2, 3, 4, 6, 8, 9, 12, 18, 24, 36, 72}


def test_tensor_parallel_axes_divide_the_hidden_size() -> None:
    # 72 devices and a hidden size of 512 = 2⁹: powers of two alone, though tokens could be split nine ways ...
    found = valid_degrees(dense_model(heads=72, kv_heads=72), load_cluster("gb200x72"))
    assert {size for d in found for size in (d.tx, d.ty)} == {1, 2, 4, 8}
    # ... which is what the other degrees do.
    assert {3, 9} <= {d.replicas for d in found}
    assert {9, 18} <= {d.dp for d in valid_degrees(moe_model(18), load_cluster("gb200x72"))}


def test_each_axis_divides_the_hidden_size_on_its_own() -> None:
    # 192 = 2⁶·3: axes of 12 and of 6 divide it, though their product does not divide 192.
    found = {(d.tx, d.ty) for d in valid_degrees(dense_model(hidden=192), load_cluster("gb200x72"))}
    assert (12, 6) in found and (2, 9) not in found and (1, 36) not in found
