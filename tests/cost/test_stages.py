from __future__ import annotations

import pytest
from tiny_settings import cost_model, degrees, dense_model, setting

from lts_bench.cost.stages import crossings, heaviest_stages
from lts_bench.cost.tables import Tables
from lts_bench.specs.cluster import load_cluster


def test_stages_that_another_holds_wholly_are_left_out() -> None:
    assert heaviest_stages([(1, 16, 0), (0, 15, 0), (0, 15, 0), (0, 15, 1)]) == [(1, 16, 0), (0, 15, 1)]
    assert heaviest_stages([(0, 4), (0, 4)]) == [(0, 4)]


@pytest.mark.parametrize(
    ("pp", "tp", "replicas", "expected"),
    [
        (1, 8, 4, (0, 0, 1)),
        (4, 8, 1, (0, 3, 1)),  # a stage a node
        (4, 2, 4, (3, 0, 1)),  # all in one node
        (8, 2, 2, (6, 1, 1)),
        (3, 2, 5, (1, 1, 1)),  # the replica that starts in the middle of a node crosses
        (2, 16, 1, (0, 1, 1)),
    ],
)
def test_boundaries_inside_and_between_nodes(pp: int, tp: int, replicas: int, expected: tuple[int, int, int]) -> None:
    assert crossings(load_cluster("h100x32"), degrees(pp=pp, tp=tp, replicas=replicas)) == expected


def sends(tables: Tables, index: int, letter: int) -> float:
    return float(tables.seconds(tables.sends, tables.sends.base[index] + letter)[0])


def test_a_boundary_sends_the_local_residual() -> None:
    model = dense_model()
    tables = cost_model(setting(model, "h100x16"), degrees(pp=2, tp=8), degrees(tp=8), degrees(pp=2, tp=2)).tables
    whole = 256 * 512 * 2
    assert sends(tables, 0, 0) == pytest.approx(10e-6 + whole / 45e9)  # between nodes, R
    assert sends(tables, 0, 1) == pytest.approx(10e-6 + whole / 8 / 45e9)  # M
    assert sends(tables, 1, 0) == 0
    assert sends(tables, 2, 0) == pytest.approx(6.46e-6 + whole / (0.628 * 450e9))  # inside a node


def test_neighbouring_stages_share_the_links_of_a_torus() -> None:
    model = dense_model(heads=32, kv_heads=32)
    place = setting(model, "tpu-v5p-4x4x8", workload="isl=65536,osl=16")
    tables = cost_model(place, degrees(pp=2, tp=1), degrees(pp=2, tp=4), degrees(pp=2, tp=8)).tables
    n, link = 65536 * 512 * 2, 90e9 * 0.9
    assert sends(tables, 0, 0) == pytest.approx(1e-6 + n / link)
    assert sends(tables, 1, 0) == pytest.approx(4e-6 + n / (2 * link / 4))  # four steps along a ring of eight
    assert sends(tables, 2, 0) == pytest.approx(1e-6 + n / link)  # one step on the next axis
