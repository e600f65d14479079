from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.chip import load_chip
from lts_bench.specs.cluster import Family, list_clusters, load_cluster
from lts_bench.specs.failure import InputError

SHELF = Shelf("cluster", Family, "lts_bench.data", "clusters")


def largest_domain(family: Family) -> str:
    shape = family.scale_up.shape if family.slices else None
    return f"{family.family}-{'x'.join(map(str, shape or (family.scale_up.size,)))}"


@pytest.mark.parametrize("name", SHELF.names())
def test_every_family_gives_a_whole_domain(name: str) -> None:
    family = SHELF.load(name)
    cluster = load_cluster(largest_domain(family))
    assert family.family == name
    assert cluster.devices == cluster.scale_up.size == family.scale_up.size
    assert cluster.chip == load_chip(family.chip)
    assert cluster.warnings == ()


def test_the_list_says_how_clusters_are_named() -> None:
    patterns = list_clusters()
    assert {"h100x<N>", "mi300x-<N>", "tpu-v4-XxYxZ", "tpu-v5e-XxY"} <= set(patterns)
    assert len(patterns) == len(SHELF.names())


@pytest.mark.parametrize(
    ("name", "devices", "size", "shape"),
    [
        ("h100x256", 256, 8, None),
        ("h100-256", 256, 8, None),
        ("h100x4", 4, 8, None),
        ("h100-oversub-512", 512, 8, None),
        ("gb200x144", 144, 72, None),
        ("mi300x-64", 64, 8, None),
        ("trainium2x64", 64, 16, (4, 4)),
        ("tpu-v5p-8x8x16", 1024, 1024, (8, 8, 16)),
        ("tpu-v5e-16x16", 256, 256, (16, 16)),
    ],
)
def test_names(name: str, devices: int, size: int, shape: tuple[int, ...] | None) -> None:
    cluster = load_cluster(name)
    assert (cluster.name, cluster.devices) == (name, devices)
    assert (cluster.scale_up.size, cluster.scale_up.shape) == (size, shape)


@given(st.integers(1, 4096))
def test_devices_are_a_part_of_a_domain_or_whole_domains(devices: int) -> None:
    if devices < 8 or devices % 8 == 0:
        assert load_cluster(f"h100x{devices}").devices == devices
    else:
        below = devices // 8 * 8
        with pytest.raises(InputError, match=rf"legal: {below}, {below + 8}$"):
            load_cluster(f"h100x{devices}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("h10x8", "unknown cluster; did you mean 'h100'?"),
        ("h100", "the number of devices is missing"),
        ("h100x8x8", "a number of devices is expected (got 'h100x8x8'); legal: h100x<N>"),
        ("h100x0", "cluster: "),
        ("trainium2x8", "must fill whole domains of 16 devices (got 8); legal: 16, 32"),
        ("tpu-v5p-64", "legal: tpu-v5p-XxYxZ up to 16x20x28"),
        ("tpu-v5e-32x16", "legal: tpu-v5e-XxY up to 16x16"),
    ],
)
def test_bad_names(name: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        load_cluster(name)
    assert told in str(caught.value)


def write_cluster(path: Path, **change: Any) -> Path:
    data = msgspec.to_builtins(load_cluster("h100x16")) | {"chip": "h100"} | change
    path.write_bytes(msgspec.yaml.encode({key: value for key, value in data.items() if value is not ...}))
    return path


def test_a_cluster_of_the_users_own(tmp_path: Path) -> None:
    path = write_cluster(tmp_path / "mine.yaml", name=...)
    assert (
        load_cluster(path) == load_cluster(str(path)) == msgspec.structs.replace(load_cluster("h100x16"), name="mine")
    )


def test_its_chip_may_be_a_file_beside_it_or_inline(tmp_path: Path) -> None:
    chip = msgspec.to_builtins(load_chip("h100")) | {"name": "mine"}
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips/mine.yaml").write_bytes(msgspec.yaml.encode(chip))
    beside = load_cluster(write_cluster(tmp_path / "a.yaml", chip="chips/mine.yaml"))
    inline = load_cluster(write_cluster(tmp_path / "b.yaml", chip=chip))
    assert beside == inline
    assert beside.chip.name == "mine"


def test_its_collectives_may_be_built_in_a_file_or_inline(tmp_path: Path) -> None:
    constants = load_cluster("h100x16").collectives
    (tmp_path / "net.yaml").write_bytes(msgspec.yaml.encode(constants))
    named, beside, inline = (
        load_cluster(write_cluster(tmp_path / "mine.yaml", collectives=given))
        for given in ("nvlink4", "net.yaml", msgspec.to_builtins(constants))
    )
    assert named == beside == inline
    with pytest.raises(InputError, match=r"collectives: unknown collectives; did you mean 'nvlink4'\?"):
        load_cluster(write_cluster(tmp_path / "mine.yaml", collectives="nvlink_4"))


def test_a_sparse_peak_is_warned_of(tmp_path: Path) -> None:
    chip = msgspec.to_builtins(load_chip("h100")) | {"peak_flops_per_s": {"bf16": 1979e12}}
    cluster = load_cluster(write_cluster(tmp_path / "mine.yaml", chip=chip))
    assert len(cluster.warnings) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"device_groups": [{"chip": "h100"}, {"chip": "a100"}]},
            "device_groups: clusters of unlike devices are not supp",
        ),
        ({"groups": []}, "groups: clusters of unlike devices are not supported"),
        ({"chip": ["h100", "a100"]}, "chip: clusters of unlike devices are not supported"),
        ({"chip": "h10O"}, "chip: unknown chip; did you mean 'h100'?"),
        ({"chip": ...}, "chip: required key is missing"),
        ({"devices": 12}, "devices: must fill whole domains of 8 devices, or be a part of one (got 12); legal: 8, 16"),
        ({"devices": True}, "devices: must be a number, not a boolean"),
        ({"scale_out": None}, "scale_out: required where there are more than 8 devices"),
        ({"scale_uq": {}}, "scale_uq: unknown key; did you mean 'scale_up'?"),
        ({"memory": "80GB"}, "memory: unknown key"),
        ({"peak_flops": 1e12}, "peak_flops: unknown key"),
    ],
)
def test_bad_files_name_file_and_key(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = write_cluster(tmp_path / "mine.yaml", **change)
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    assert f"{path}: {told}" in str(caught.value)
