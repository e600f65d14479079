"""Where groups lie: as the cost model places them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lts_bench.cost.groups import place_group
from lts_bench.space.spans import SCALE_OUT, SCALE_UP, group_crosses, spans
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import load_cluster

CLUSTERS = {name: load_cluster(name) for name in ("h100x64", "gb200x144", "tpu-v4-4x4x4")}
FACTORS = st.sampled_from([1, 2, 3, 4, 6, 8, 9, 12, 16])


@given(st.sampled_from(sorted(CLUSTERS)), FACTORS, FACTORS, FACTORS)
def test_groups_cross_domains_where_the_cost_model_has_them_cross(name, outer, size, stride):
    cluster, stage = CLUSTERS[name], outer * size * stride
    assume(stage <= cluster.devices)
    domain = min(cluster.scale_up.size, cluster.devices)
    crosses = place_group(cluster, stage, size, stride).domains > 1
    assert group_crosses(stage, size, stride, domain) is crosses


def levels(degrees: Degrees, domain: int | None) -> dict[str, str]:
    return {span.name: span.level for span in spans(degrees, domain) if span.level}


def test_levels_of_a_stage_that_is_larger_than_a_domain():
    degrees = Degrees(replicas=1, pp=2, dp=4, tx=2, ty=4, ep=8, etp=4)
    expected = {"pp": SCALE_OUT, "dp": SCALE_OUT, "tx": SCALE_UP, "ty": SCALE_UP, "ep": SCALE_OUT, "etp": SCALE_UP}
    assert levels(degrees, 8) == expected
    assert set(levels(degrees, 64).values()) == {SCALE_UP}
    assert levels(degrees, None) == {}


@pytest.mark.parametrize(
    ("replicas", "pp", "stage", "domain", "level"),
    [
        (4, 2, 4, 8, SCALE_UP),
        (2, 4, 4, 8, SCALE_OUT),
        (2, 3, 1, 8, SCALE_UP),
        (4, 3, 2, 8, SCALE_OUT),
        (1, 2, 16, 8, SCALE_OUT),
        (1, 2, 4, 8, SCALE_UP),
    ],
)
def test_a_pipeline_lies_in_a_domain_where_whole_pipelines_fit(replicas, pp, stage, domain, level):
    assert levels(Degrees(replicas, pp, 1, 1, stage, 1, stage), domain)["pp"] == level


def test_groups_of_one_and_replicas_lie_nowhere():
    assert levels(Degrees(64, 1, 1, 1, 1, 1, 1), 8) == {}
    assert [span.size for span in spans(Degrees(1, 2, 3, 4, 5, 6, 7))] == [1, 2, 3, 4, 5, 6, 7]
