from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.space.placement import domain_size, domains_per_stage, placeable_stages, stages_per_domain
from lts_bench.specs.cluster import load_cluster


@pytest.mark.parametrize(
    ("cluster", "stage", "stages"),
    [
        ("h100x32", 8, 4), ("h100x32", 4, 8), ("h100x32", 3, 8),  # two of 3 in a node of 8
        ("h100x32", 5, 4), ("h100x32", 16, 2), ("h100x32", 12, 2), ("h100x32", 24, 1), ("h100x32", 64, 0),
        ("h100x4", 4, 1), ("h100x4", 8, 0),
        ("gb200x72", 16, 4),  # an NVL72 with stages of 16 uses 64
        ("gb200x144", 48, 2), ("gb200x144", 144, 1),
        ("tpu-v5p-4x4x8", 32, 4),
    ],
)  # fmt: skip
def test_whole_stages_in_domains(cluster: str, stage: int, stages: int) -> None:
    assert placeable_stages(load_cluster(cluster), stage) == stages


def test_a_domain_is_never_larger_than_the_cluster() -> None:
    assert domain_size(load_cluster("h100x4")) == 4 and domain_size(load_cluster("h100x32")) == 8


@given(st.integers(1, 40))
def test_stages_never_overlap(stage: int) -> None:
    cluster = load_cluster("h100x32")
    assert placeable_stages(cluster, stage) * stage <= 32
    if stage <= 8:
        assert placeable_stages(cluster, stage) == 4 * stages_per_domain(stage, 8)
    else:
        assert placeable_stages(cluster, stage) == 4 // domains_per_stage(stage, 8)
